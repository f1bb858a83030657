// Gets the receipt of a thesis, and checks it offline.
import { Client, verifyReceipt } from "../src/index.js"; // in your program: "trade-thesis"

const client = new Client(process.env["API_URL"] ?? "", process.env["API_KEY"]);
// Store the keys once: who only knows those in a receipt can be shown any log.
const trusted = (await client.listLogKeys()).data.map(({ key }) => key);
const thesis = (await client.listTheses({ limit: 100 })).data.at(-1);
if (thesis) {
  const verified = await verifyReceipt(await client.getReceipt(thesis.id), { trusted });
  console.log("recorded in", verified.dataset, "of", verified.size, "entries:", verified.document);
}
