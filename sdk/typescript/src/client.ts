import { Operations } from "./operations.js";

/** Calls the API. */
export class Client extends Operations {}
