// The npm packages eventsource and ws: prints "open", and then what both got of two events.
const { createRequire } = require("node:module");
const from = createRequire(`${process.env.NODE_MODULES}/`);
const { EventSource } = from("eventsource");
const WebSocket = from("ws");

const [http, address, key] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };
const told = { eventsource: [], ws: [], onmessage: 0 };
let ready = 0;

const begun = () => ++ready === 2 && console.log("open");
const source = new EventSource(`${http}/v1/events/stream?types=thesis.created&token=NODE`, {
  fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, ...headers } }),
});
source.onmessage = () => told.onmessage++;
source.addEventListener("stream.cursor", begun, { once: true });
source.addEventListener("thesis.created", (event) => got(told.eventsource, JSON.parse(event.data)));

const socket = new WebSocket(address);
socket.on("open", () => socket.send(JSON.stringify({ op: "auth", key })));
socket.on("message", (data) => {
  const message = JSON.parse(data);
  const subscribe = { op: "subscribe", sub: "all", types: ["thesis.created"], filters: { token: ["NODE"] } };
  if (message.op === "welcome") socket.send(JSON.stringify(subscribe));
  if (message.op === "subscribed") begun();
  if (message.op === "event") got(told.ws, message.event);
});

function got(list, event) {
  list.push(event.id);
  if (told.eventsource.length < 2 || told.ws.length < 2) return;
  console.log(JSON.stringify(told));
  source.close();
  socket.close();
}
