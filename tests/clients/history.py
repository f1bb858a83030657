"""An export of live data of several days, with late posts, edits and deletions: the times of an export are kept."""

import base64
import collections
import datetime
import hashlib
import json
import random

ALPHABET = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdefghjkmnpqrstvwxyz")
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
DAYS = 4
# Posts of a day. More than one page of a list has.
POSTS = 130
AUTHORS, TOKENS = 7, 3


def derive(prefix, *parts):
    """The id that follows from these parts."""
    digest = hashlib.sha256(prefix.encode())
    for part in parts:
        digest.update(len(part.encode()).to_bytes(8, "big") + part.encode())
    return prefix + base64.b32encode(digest.digest()[:15]).decode().translate(ALPHABET)


class History:
    """The log of the days before a date."""

    def __init__(self, today):
        self.random = random.Random(7)
        self.entries, self.theses = [], {}
        self.of_token, self.of_author, self.by_author = (collections.Counter() for _ in range(3))
        midnight = int(datetime.datetime.combine(today, datetime.time(), datetime.timezone.utc).timestamp() * 1_000)
        for day in range(DAYS, 0, -1):
            self.fill_day(midnight - day * DAY_MS)
        self.dates = [(today - datetime.timedelta(days=day)).isoformat() for day in range(DAYS, 0, -1)]

    def fill_day(self, start):
        for number in range(POSTS):
            at = start + (number + 1) * (DAY_MS // (POSTS + 1))
            late = number % 10 == 9 and self.entries
            self.post(at, at - self.random.randrange(HOUR_MS, DAY_MS) if late else at)
            for change in (self.edit, self.delete):
                if self.random.random() < 0.2:
                    change(at + 1, self.random.choice([row for row in self.theses.values() if not row["deleted_at"]]))

    def add(self, at, entry_id, kind, content):
        self.entries.append({"id": entry_id, "created_at": at, "test": False, "kind": {kind: content}})

    @property
    def next_sequence(self):
        return len(self.entries) + 1

    def totals(self, row, by):
        """Counts a thesis in or out."""
        token, author = row["token_id"], row["profile_id"]
        self.of_token[token] += by
        self.of_author[token, author] += by
        self.by_author[author] += max(by, 0)
        authors = sum(1 for (of, _), count in self.of_author.items() if of == token and count > 0)
        return {
            "theses": self.of_token[token], "authors": authors, "of_author": self.of_author[token, author],
            "by_author": self.by_author[author],
        }  # fmt: skip

    def post(self, at, created_at):
        number = len(self.theses)
        author, address = f"author{number % AUTHORS}", f"0xa{number % TOKENS}"
        profile = {
            "id": derive("fp_", "live", "upstream", author), "upstream_id": author, "handle": f"@{author}",
            "display_name": None, "avatar_url": None, "profile_url": None, "bio": None, "verified": None,
            "created_at": None, "first_seen_at": at, "updated_at": at, "source_updated_at": None, "wallets": [],
            "age": None, "wallets_age": None,
        }  # fmt: skip
        token = {
            "id": derive("tk_", "live", "base", address), "symbol": f"$TOK{number % TOKENS}", "name": None,
            "chain": "base", "chain_id": None, "address": address, "logo_url": None, "platform_url": None,
            "first_seen_at": at, "updated_at": at, "source_updated_at": None, "age": None,
        }  # fmt: skip
        row = {
            "id": derive("th_", "live", "upstream", f"post{number}"), "profile_id": profile["id"],
            "token_id": token["id"], "chain": "base", "text": f"post {number}", "likes": None, "replies": None,
            "created_at": created_at, "updated_at": created_at, "deleted_at": None, "sandbox_profile": False,
            "sandbox_token": False, "version": 1, "engagement_version": 1, "upstream_id": f"post{number}",
            "sequence": self.next_sequence, "recorded_at": at, "removed_at": None,
        }  # fmt: skip
        introduces = {
            "introduces_profile": self.by_author[profile["id"]] == 0,
            "introduces_token": number < TOKENS,
        }
        self.theses[row["id"]] = row
        content = {"thesis": dict(row), "profile": profile, "token": token, "totals": self.totals(row, 1)} | introduces
        self.add(at, row["id"].replace("th_", "evt_", 1), "thesis_created", content)

    def names(self, row):
        number = int(row["upstream_id"].removeprefix("post"))
        token = number % TOKENS
        return {
            "profile": {"id": row["profile_id"], "handle": f"@author{number % AUTHORS}"},
            "token": {"id": row["token_id"], "chain": "base", "address": f"0xa{token}", "symbol": f"$TOK{token}"},
        }

    def edit(self, at, row):
        previous = {"previous": row["changed_in"]} if "changed_in" in row else {}
        row["version"] += 1
        row |= {"text": f"{row['text']}, again", "updated_at": at, "changed_in": self.next_sequence}
        entry_id = derive("ent_", "edited", row["id"], str(row["version"]))
        self.add(at, entry_id, "thesis_edited", {"thesis": dict(row)} | self.names(row) | previous)

    def delete(self, at, row):
        row["version"] += 1
        row |= {"deleted_at": at, "removed_at": at, "changed_in": self.next_sequence}
        entry_id = derive("ent_", "deleted", row["id"], str(row["version"]))
        content = {"thesis": dict(row), "totals": self.totals(row, -1)} | self.names(row)
        self.add(at, entry_id, "thesis_deleted", content)

    def export(self):
        """The file that `admin import` reads."""

        def line(value):
            return json.dumps(value, separators=(",", ":")).encode() + b"\n"

        lines = [line({"seq": seq, "entry": entry}) for seq, entry in enumerate(self.entries, 1)]
        count, sha256 = len(lines), hashlib.sha256(b"".join(lines)).hexdigest()
        head = {"object": "dataset_export", "version": 1, "dataset": "live", "entries": count, "head": count}
        head = line(head | {"created_at": "2026-01-01T00:00:00.000Z"})
        return head + b"".join(lines) + line({"object": "end", "entries": count, "sha256": sha256})
