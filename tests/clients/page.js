// What a page of the browser does with its streams, and what it got.
window.got = {};

window.follow = (name, address) => {
  const of = (got[name] = { events: [], messages: 0, cursors: 0 });
  const source = new EventSource(address);
  source.onmessage = () => of.messages++;
  source.addEventListener("stream.cursor", () => of.cursors++);
  source.addEventListener("thesis.created", (event) => of.events.push(JSON.parse(event.data).id));
};

window.socket = (address, subscribe) => {
  const of = (got.socket = { events: [], ops: [], code: null });
  const socket = new WebSocket(address);
  socket.onmessage = ({ data }) => {
    const told = JSON.parse(data);
    of.ops.push(told.op);
    if (told.op === "welcome") socket.send(subscribe);
    if (told.op === "event") of.events.push(told.event.id);
  };
  socket.onclose = ({ code }) => (of.code = code);
};
