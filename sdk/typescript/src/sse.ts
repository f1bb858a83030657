// Reads Server-Sent Events.

export interface Frame {
  readonly event: string;
  readonly data: string;
  /** The id of this frame, or of the last one that had one. */
  readonly id: string;
}

/** Makes frames of the bytes of a stream, in whatever pieces they come. */
export class Parser {
  /** Milliseconds to wait before the stream is opened again, if a line named them. */
  retry: number | undefined;
  #decoder = new TextDecoder();
  #rest = "";
  #event = "";
  #data: string[] = [];
  #id = "";

  /** The frames that end in this piece. */
  feed(piece: Uint8Array): Frame[] {
    this.#rest += this.#decoder.decode(piece, { stream: true });
    // A return at the end may be the first half of an end of a line.
    const isHalf = this.#rest.endsWith("\r");
    const lines = (isHalf ? this.#rest.slice(0, -1) : this.#rest).split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? "") + (isHalf ? "\r" : "");
    return lines.map((line) => this.#take(line)).filter((frame) => frame !== undefined);
  }

  #take(line: string): Frame | undefined {
    if (line === "") return this.#end();
    const colon = line.indexOf(":");
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^[0-9]+$/.test(value)) this.retry = Number(value);
    return undefined;
  }

  #end(): Frame | undefined {
    const frame = { event: this.#event || "message", data: this.#data.join("\n"), id: this.#id };
    const isEmpty = this.#data.length === 0;
    this.#event = "";
    this.#data = [];
    return isEmpty ? undefined : frame;
  }
}
