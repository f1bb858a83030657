// Passkeys: fills the hidden fields of a form with what the browser's authenticator answers, in hex, and sends the form.
// `data-passkey` is `get` for a proof and `create` for a new passkey.
"use strict";

const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
const bytes = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
const letters = (text) => new TextEncoder().encode(text);
const credentials = (known) => known.split(",").filter(Boolean).map((id) => ({ type: "public-key", id: bytes(id) }));

const prove = async ({ challenge, host, known }) => {
  const publicKey = {
    challenge: letters(challenge), rpId: host, allowCredentials: credentials(known), userVerification: "preferred",
  };
  const { rawId, response } = await navigator.credentials.get({ publicKey });
  return {
    credential_id: rawId, client_data: response.clientDataJSON,
    authenticator_data: response.authenticatorData, signature: response.signature,
  };
};

const create = async ({ challenge, host, known, handle, user }) => {
  const publicKey = {
    challenge: letters(challenge),
    rp: { id: host, name: "Trade Thesis" },
    user: { id: bytes(handle), name: user, displayName: user },
    // ES256, EdDSA and RS256.
    pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: "public-key", alg })),
    excludeCredentials: credentials(known),
    authenticatorSelection: { residentKey: "preferred", userVerification: "preferred" },
    attestation: "none",
  };
  const { response } = await navigator.credentials.create({ publicKey });
  return { client_data: response.clientDataJSON, authenticator_data: response.getAuthenticatorData() };
};

for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.hidden = !window.PublicKeyCredential;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const fault = form.querySelector("[role=alert]");
    fault.textContent = "";
    try {
      const fields = await (form.dataset.passkey === "create" ? create : prove)(form.dataset);
      for (const [name, value] of Object.entries(fields)) form.elements[name].value = hex(value);
      form.submit();
    } catch (error) {
      fault.textContent = error.name === "InvalidStateError"
        ? "This device has a passkey for your account already."
        : "The browser gave no passkey. Try again.";
      // The form may be sent again.
      delete form.dataset.sent;
    }
  });
}
