"""Mail as a mail server gets it: aiosmtpd takes what the service sends, and the links in it work."""

import asyncio
import email
import email.policy
import json
import re
import subprocess

import httpx
from aiosmtpd.smtp import SMTP

TOKEN = "clients-service-token-0123456789abcdef"
PUBLIC = "https://thesis.example"
PASSWORD, NEW = "correct horse battery staple", "a wholly new password"
PERMISSION_DENIED, UNAUTHENTICATED = 7, 16
CONFIRMATION = 4
# The public URL begins with https.
COOKIE = "__Host-session"
# Longest wait for one mail.
SOON = 30


class Inbox:
    """A mail server's folder."""

    def __init__(self):
        self.mails = asyncio.Queue()

    async def handle_DATA(self, server, session, envelope):
        self.mails.put_nowait(envelope)
        return "250 taken"

    async def text(self, recipient, says=""):
        """The text of the next mail, which must be for this recipient and say a text."""
        envelope = await asyncio.wait_for(self.mails.get(), SOON)
        assert envelope.rcpt_tos == [recipient], envelope.rcpt_tos
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert message["to"].addresses[0].addr_spec == recipient and message["subject"], message.as_string()
        assert message["from"].addresses[0].addr_spec == "no-reply@thesis.example", message["from"]
        assert message["date"] and message["message-id"], message.as_string()
        text = message.get_body(("plain",)).get_content()
        assert says in text, text
        return text

    async def notice(self, recipient, says):
        """The next mail, which must tell this recipient what was done, and lead to no one-time link."""
        text = await self.text(recipient, says)
        assert f"{PUBLIC}/console/forgot" in text and "/console/links/" not in text, text

    async def link(self, recipient, says=""):
        """The token of the link in the next mail, which must be for this recipient and say a text."""
        text = await self.text(recipient, says)
        links = set(re.findall(r"https?://[^\s<>\"]+/console/links/[^\s<>\"]+", text))
        assert len(links) == 1, links
        link = links.pop()
        assert link.startswith(f"{PUBLIC}/console/links/"), link
        return link.rsplit("/", 1)[1]


def varint(number):
    text = b""
    while number > 127:
        text, number = text + bytes([number & 127 | 128]), number >> 7
    return text + bytes([number])


def encode(fields):
    """A protobuf message of texts and numbers, by the fields' numbers."""
    text = b""
    for field, value in fields.items():
        if isinstance(value, int):
            text += varint(field << 3) + varint(value)
        else:
            text += varint(field << 3 | 2) + varint(len(value.encode())) + value.encode()
    return text


def decode(text):
    """The last value of each field of a protobuf message, by its number; messages and texts as bytes."""

    def read():
        nonlocal text
        number, shift = 0, 0
        while True:
            byte, text = text[0], text[1:]
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    fields = {}
    while text:
        field, kind = divmod(read(), 8)
        if kind == 0:
            fields[field] = read()
        else:
            assert kind == 2, kind
            length = read()
            fields[field], text = text[:length], text[length:]
    return fields


async def call(service, method, fields, session=None):
    """Calls `AccountService` by gRPC-web; gives the status, and the answer's fields."""
    headers = {"content-type": "application/grpc-web+proto", "x-grpc-web": "1", "x-service-token": TOKEN}
    if session:
        headers["x-session"] = session
    body = encode(fields)
    async with httpx.AsyncClient(timeout=SOON) as client:
        address = f"{service.grpc}/thesis.v1.AccountService/{method}"
        answer = await client.post(address, headers=headers, content=b"\0" + len(body).to_bytes(4) + body)
    assert answer.status_code == 200, answer
    status, told, rest = answer.headers.get("grpc-status"), {}, answer.content
    while rest:
        flag, length = rest[0], int.from_bytes(rest[1:5])
        frame, rest = rest[5 : 5 + length], rest[5 + length :]
        if flag & 128:
            status = re.search(rb"grpc-status: *(\d+)", frame)[1]
        else:
            told = decode(frame)
    return int(status), told


async def ok(service, method, fields, session=None):
    status, told = await call(service, method, fields, session)
    assert status == 0, (method, status)
    return told


def session_of(told):
    """The secret of the session in an answer that begins one."""
    return decode(told[1])[1].decode()


async def admin(service, *arguments):
    """What an operator's command prints."""
    command = [service.program, "admin", *arguments, "--json"]
    environment = {"SVC_CORE_URL": service.grpc, "SVC_SERVICE_TOKEN": TOKEN}
    made = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, check=True)
    return json.loads(made.stdout)


async def user(service, session):
    """The user of a session by the fields' numbers, and whether they have an organization."""
    account = await ok(service, "GetAccount", {}, session)
    return decode(account[1]), 2 in account


async def mail(service, start):
    """Mails that confirm, invite and lead to a new password arrive; what is in them works, and is told nowhere else."""
    inbox = Inbox()
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(inbox), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = {
        "SVC_SERVICE_TOKEN": TOKEN,
        "SVC_PUBLIC_URL": PUBLIC,
        "SVC_SMTP_URL": f"smtp://127.0.0.1:{port}",
        "SVC_MAIL_FROM": "Trade thesis <no-reply@thesis.example>",
    }
    own = await asyncio.to_thread(start, f"{service.folder}/mail", settings)
    try:
        await links(own, inbox)
        # Without the server everything goes on, only the mail does not come.
        server.close()
        owner = await ok(own, "SignUp", {1: "second@people.example", 2: PASSWORD, 3: "Second"})
        await admin(own, "user", "confirm", "second@people.example")
        made = {1: decode(owner[2])[1].decode(), 2: "late@people.example", 3: 1}
        told = await asyncio.wait_for(ok(own, "CreateInvitation", made, session_of(owner)), 3)
        assert 2 not in told, told
    finally:
        server.close()
        own.kill()


async def links(service, inbox):
    owner = await ok(service, "SignUp", {1: "owner@people.example", 2: PASSWORD, 3: "Acme & Söhne"})
    organization, session = decode(owner[2])[1].decode(), session_of(owner)

    # The link of the sign-up confirms the e-mail for whoever signed up, however often it is opened. Before that nobody is
    # invited.
    invitation = {1: organization, 2: "invited@people.example", 3: 2}
    assert (await call(service, "CreateInvitation", invitation, session))[0] == PERMISSION_DENIED
    token = await inbox.link("owner@people.example")
    await ok(service, "SendConfirmation", {}, session)
    assert token.rsplit(".", 2)[0] == (await inbox.link("owner@people.example")).rsplit(".", 2)[0]
    seen = await ok(service, "GetLink", {1: token})
    assert (seen[1], seen[2]) == (CONFIRMATION, b"owner@people.example"), seen
    assert 5 not in (await user(service, session))[0]
    # The link alone confirms nothing: its page asks for a sign-in.
    async with httpx.AsyncClient(timeout=SOON) as client:
        page = await client.get(f"{service.http}/console/links/{token}")
    assert page.status_code == 200 and "Sign in to confirm" in page.text and "<form" not in page.text.split("<main")[1], page.text
    assert (await call(service, "ConfirmEmail", {1: token}))[0] == UNAUTHENTICATED
    other = session_of(await ok(service, "SignUp", {1: "other@people.example", 2: PASSWORD, 3: "Other"}))
    await inbox.link("other@people.example")
    assert (await call(service, "ConfirmEmail", {1: token}, other))[0] == PERMISSION_DENIED
    assert 5 not in (await user(service, session))[0]
    # With the session the page has the button.
    async with httpx.AsyncClient(timeout=SOON) as client:
        page = await client.get(f"{service.http}/console/links/{token}", headers={"cookie": f"{COOKIE}={session}"})
    assert page.status_code == 200 and "Confirm e-mail" in page.text and "Sign in to confirm" not in page.text, page.text
    for _ in range(2):
        await ok(service, "ConfirmEmail", {1: token}, session)
    assert 5 in (await user(service, session))[0]
    await ok(service, "SendConfirmation", {}, session)

    # An invitation: its link is told by the mail alone. No mail says the name that a young account gave its organization.
    told = await ok(service, "CreateInvitation", invitation, session)
    assert 1 in told and 2 not in told, told
    token = await inbox.link("invited@people.example", says="to join an organization.")
    seen = await ok(service, "GetLink", {1: token})
    assert (seen[1], seen[2], seen[3].decode()) == (1, b"invited@people.example", "Acme & Söhne"), seen
    invited = session_of(await ok(service, "AcceptInvitation", {1: token, 3: PASSWORD}))
    assert 5 in (await user(service, invited))[0], "a mailed link confirms"

    # A forgotten password. Nobody gets a mail for an e-mail without an account.
    for forgotten in ("nobody@people.example", "Invited@people.example"):
        assert await ok(service, "RequestPasswordReset", {1: forgotten}) == {1: 1}
    token = await inbox.link("invited@people.example")
    # Another request voids the link of the first one no more than a stranger's would. The use of one voids both.
    await ok(service, "RequestPasswordReset", {1: "invited@people.example"})
    other = await inbox.link("invited@people.example")
    session = session_of(await ok(service, "ResetPassword", {1: token, 2: NEW}))
    await inbox.notice("invited@people.example", says="new password")
    assert (await call(service, "ResetPassword", {1: other, 2: NEW}))[0] != 0
    await ok(service, "GetAccount", {}, session)
    assert (await call(service, "GetAccount", {}, invited))[0] == UNAUTHENTICATED
    assert (await call(service, "ResetPassword", {1: token, 2: NEW}))[0] != 0

    # The holder of an address takes over nothing that a stranger set up under it.
    stranger = session_of(await ok(service, "SignUp", {1: "victim@people.example", 2: PASSWORD, 3: "Squat"}))
    await inbox.link("victim@people.example")
    assert (await user(service, stranger))[1]
    await ok(service, "RequestPasswordReset", {1: "victim@people.example"})
    token = await inbox.link("victim@people.example")
    assert (await ok(service, "GetLink", {1: token}))[7] == 1
    victim = session_of(await ok(service, "ResetPassword", {1: token, 2: NEW}))
    await inbox.notice("victim@people.example", says="new password")
    fields, has_organization = await user(service, victim)
    assert 5 in fields and not has_organization
    assert (await call(service, "GetAccount", {}, stranger))[0] == UNAUTHENTICATED

    # A sign-in on another device is reported, one on a known device is not. Nor is one of an unconfirmed e-mail.
    told = decode((await ok(service, "SignIn", {1: "invited@people.example", 2: NEW}))[1])
    await inbox.notice("invited@people.example", says="a device that was not used")
    await ok(service, "SignIn", {1: "invited@people.example", 2: NEW, 4: told[4].decode()})
    await ok(service, "SignIn", {1: "other@people.example", 2: PASSWORD})
    assert inbox.mails.empty()

    # Operators see the link of whom they invite, and it is sent too.
    link = (await admin(service, "user", "create", "--email", "third@people.example"))["link"]
    assert link.rsplit("/", 1)[1] == await inbox.link("third@people.example")
    assert inbox.mails.empty()
