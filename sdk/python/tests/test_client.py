"""Requests, retries, errors and pages."""

from __future__ import annotations

import asyncio
import datetime
import json
import pickle
import unittest
from typing import Any

import httpx
from helpers import BASE, KEY, Script, async_client, client, refusal

from trade_thesis import (
    NOT_GIVEN,
    ApiConnectionError,
    ApiError,
    ApiTimeoutError,
    Client,
    Options,
    TradeThesisError,
    __version__,
    errors,
)
from trade_thesis.types import WebhookFilters

ALERTS: dict[str, Any] = {"object": "list", "data": [], "next_cursor": None, "has_more": False}


def alert(number: int) -> dict[str, Any]:
    """An alert."""
    at = "2026-01-31T12:00:00.123Z"
    return {
        "object": "alert",
        "id": f"al_{number}",
        "name": "one",
        "token": {"id": "tk_1", "chain": "base", "address": "0x1", "symbol": "$RUN", "name": "Run"},
        "metric": "thesis_count_1h",
        "above": 5,
        "below": None,
        "recover": 4,
        "for": "5m",
        "keep_firing_for": "0s",
        "state": "ok",
        "state_since": at,
        "livemode": False,
        "created_at": at,
        "updated_at": at,
        "later": 1,
    }


class Requests(unittest.TestCase):
    def test_it_writes_a_request(self) -> None:
        script = Script(httpx.Response(200, json=ALERTS | {"data": [], "object": "list"}))
        made, _ = client(script)
        since = datetime.datetime(2026, 1, 31, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
        made.list_events(types=["thesis.created", "profile.updated"], token="RUN", text=["a", "b"], created_after=since)
        [request] = script.requests
        self.assertEqual(
            request.url.params.multi_items(),
            [
                ("types", "thesis.created,profile.updated"),
                ("token", "RUN"),
                ("text", "a"),
                ("text", "b"),
                ("created_after", "2026-01-31T12:00:00.000Z"),
            ],
        )
        self.assertEqual(request.headers["Authorization"], "Bearer svc_test_key")
        self.assertEqual(request.headers["User-Agent"], f"trade-thesis-python/{__version__}")
        self.assertEqual(request.extensions["timeout"]["read"], 15)
        self.assertNotIn("Idempotency-Key", request.headers)

    def test_the_user_agent_may_name_the_program(self) -> None:
        made, _ = client(Script(), user_agent="bot/1.2")
        made_async, _ = async_client(Script(), user_agent="bot/1.2")
        for requests in (made._requests, made_async._requests):
            self.assertEqual(requests.headers["User-Agent"], f"trade-thesis-python/{__version__} bot/1.2")

    def test_it_encodes_paths(self) -> None:
        script = Script(*(httpx.Response(200, content=b"\x01") for _ in range(2)))
        made, _ = client(script)
        made.get_archive_file("2026-01-31", "a/b?.parquet")
        made.get_tile("live", "0/x001/234")
        paths = [request.url.raw_path.decode() for request in script.requests]
        self.assertEqual(paths, ["/v1/archive/2026-01-31/a%2Fb%3F.parquet", "/v1/log/live/tile/0/x001/234"])

    def test_an_id_that_names_nothing_is_not_sent(self) -> None:
        script = Script()
        made, _ = client(script)
        for one in ("", ".", ".."):
            with self.assertRaises(ValueError):
                made.get_thesis(one)
            with self.assertRaises(ValueError):
                made.get_receipt(one)
        self.assertEqual(script.requests, [])

    def test_none_clears_what_can_be_cleared_and_leaves_out_the_rest(self) -> None:
        script = Script(*(httpx.Response(200, json=alert(1)) for _ in range(2)))
        made, _ = client(script)
        made.update_alert("al_1", above=None, for_="1m", name=None)
        made.update_alert("al_1", below=NOT_GIVEN)
        bodies = [json.loads(request.content) for request in script.requests]
        self.assertEqual(bodies, [{"above": None, "for": "1m"}, {}])

    def test_it_writes_objects(self) -> None:
        script = Script(refusal(401, "INVALID_API_KEY", "authentication"))
        made, _ = client(script)
        with self.assertRaises(errors.AuthenticationError):
            made.create_webhook(
                url="https://a.example", events=["thesis.created"], filters=WebhookFilters(token=["RUN"])
            )
        body = json.loads(script.requests[0].content)
        self.assertEqual(
            body, {"url": "https://a.example", "events": ["thesis.created"], "filters": {"token": ["RUN"]}}
        )

    def test_it_reads_a_response_with_fields_of_a_newer_service(self) -> None:
        made, _ = client(Script(httpx.Response(200, json=alert(1))))
        read = made.get_alert("al_1")
        self.assertEqual((read.id, read.for_, read.above, read.token.symbol), ("al_1", "5m", 5, "$RUN"))
        self.assertEqual(read.created_at.isoformat(), "2026-01-31T12:00:00.123000+00:00")
        self.assertEqual(read.raw["later"], 1)

    def test_a_client_needs_an_address(self) -> None:
        for address in ("", "a.example", "ftp://a.example", "https://", f"{BASE}?a", f"{BASE}#a", f"{BASE}/?"):
            with self.assertRaises(ValueError):
                Client(address, KEY)

    def test_a_key_has_the_form_of_a_key(self) -> None:
        for key in ("", "\n", "svc test", "svc_test_\u00e9"):
            with self.assertRaises(ValueError):
                Client(BASE, key)

    def test_a_key_may_come_from_a_file_with_an_end_of_line(self) -> None:
        script = Script(httpx.Response(200, json=alert(1)))
        with Client(BASE, f"{KEY}\n", http_client=httpx.Client(transport=httpx.MockTransport(script))) as made:
            made.get_alert("al_1")
        self.assertEqual(script.requests[0].headers["Authorization"], f"Bearer {KEY}")

    def test_without_a_key_there_is_no_header(self) -> None:
        script = Script(httpx.Response(200, text="note"))
        with Client(BASE, None, http_client=httpx.Client(transport=httpx.MockTransport(script))) as made:
            made.get_checkpoint("live")
        self.assertNotIn("Authorization", script.requests[0].headers)

    def test_it_tells_what_is_no_response_of_the_service(self) -> None:
        made, _ = client(Script(httpx.Response(200, text="<html>"), httpx.Response(200, json={})))
        for _ in range(2):
            with self.assertRaises(errors.UnexpectedResponseError):
                made.get_alert("al_1")


class Retries(unittest.TestCase):
    def test_it_tries_again_with_the_same_key(self) -> None:
        script = Script(
            httpx.ConnectError("refused"),
            httpx.ReadTimeout("slow"),
            refusal(429, "RATE_LIMITED", "rate_limit", Retry_After="7"),
            refusal(503, "SERVICE_UNAVAILABLE", "internal", Retry_After="1"),
            refusal(409, "IDEMPOTENCY_IN_PROGRESS", "conflict", Retry_After="1"),
            httpx.Response(201, json=alert(1)),
        )
        made, pauses = client(script)
        self.assertEqual(made.create_alert(name="one", token="RUN", metric="thesis_count_1h", above=5).id, "al_1")
        self.assertEqual(len({request.headers["Idempotency-Key"] for request in script.requests}), 1)
        bounds = [(0.25, 0.5), (0.5, 1), (8, 9), (3, 5), (5, 9)]
        for pause, (low, high) in zip(pauses, bounds, strict=True):
            self.assertTrue(low <= pause <= high, pauses)

    def test_a_given_key_is_sent(self) -> None:
        script = Script(httpx.Response(201, json=alert(1)))
        made, _ = client(script)
        made.create_alert(name="one", token="RUN", metric="thesis_count_1h", above=5, idempotency_key="mine")
        self.assertEqual(script.requests[0].headers["Idempotency-Key"], "mine")

    def test_it_gives_up(self) -> None:
        cases: list[tuple[list[httpx.Response | Exception], type[TradeThesisError], int]] = [
            ([refusal(429, "QUOTA_EXCEEDED", "rate_limit", Retry_After="1")], errors.RateLimitError, 0),
            ([refusal(429, "RATE_LIMITED", "rate_limit", Retry_After="121")], errors.RateLimitError, 0),
            ([refusal(404, "ALERT_NOT_FOUND", "not_found")], errors.NotFoundError, 0),
            ([refusal(409, "DELIVERY_IN_PROGRESS", "conflict")], errors.ConflictError, 0),
            ([httpx.ReadTimeout("slow")] * 6, ApiTimeoutError, 5),
            ([httpx.ConnectError("refused")] * 6, ApiConnectionError, 5),
            ([httpx.RemoteProtocolError("closed")] * 6, ApiConnectionError, 5),
        ]
        for responses, kind, retries in cases:
            with self.subTest(kind=kind):
                made, pauses = client(Script(*responses))
                with self.assertRaises(kind):
                    made.get_alert("al_1")
                self.assertEqual(len(pauses), retries)

    def test_a_call_has_its_own_settings(self) -> None:
        script = Script(*[httpx.ReadTimeout("slow")] * 2)
        made, pauses = client(script, timeout=3, max_retries=4)
        with self.assertRaises(ApiTimeoutError):
            made.get_alert("al_1", options=Options(timeout=1, max_retries=1))
        self.assertEqual((len(pauses), script.requests[0].extensions["timeout"]["read"]), (1, 1))


class Errors(unittest.TestCase):
    def test_each_class_has_a_type(self) -> None:
        for kind, expected in [
            ("invalid_request", errors.InvalidRequestError),
            ("authentication", errors.AuthenticationError),
            ("permission", errors.PermissionDeniedError),
            ("not_found", errors.NotFoundError),
            ("conflict", errors.ConflictError),
            ("validation", errors.ValidationError),
            ("rate_limit", errors.RateLimitError),
            ("internal", errors.InternalError),
            ("upstream", errors.UpstreamError),
            ("of_later", ApiError),
        ]:
            made, _ = client(Script(refusal(400, "CODE", kind)))
            with self.assertRaises(ApiError) as caught:
                made.get_me()
            self.assertIs(type(caught.exception), expected)

    def test_an_error_says_what_is_wrong(self) -> None:
        body: dict[str, Any] = {"type": "conflict", "code": "AMBIGUOUS_TOKEN", "message": "give the chain"}
        candidate = {"id": "tk_1", "chain": "base", "address": "0x1", "symbol": "$RUN", "name": "Run"}
        body |= {
            "request_id": "req_1",
            "param": "token",
            "doc_url": "https://a.example",
            "details": {"candidates": [candidate], "later": 1},
        }
        made, _ = client(Script(httpx.Response(409, json={"error": body})))
        with self.assertRaises(errors.ConflictError) as caught:
            made.get_token("RUN")
        error = pickle.loads(pickle.dumps(caught.exception))  # noqa: S301
        self.assertEqual(str(error), "AMBIGUOUS_TOKEN: give the chain (req_1)")
        self.assertEqual((error.status, error.code, error.type, error.param), (409, *body_of(body)))
        self.assertEqual((error.message, error.request_id, error.doc_url), ("give the chain", "req_1", body["doc_url"]))
        self.assertEqual([token.chain for token in error.details.candidates], ["base"])

    def test_something_else_may_respond(self) -> None:
        made, pauses = client(Script(*[httpx.Response(502, text="bad gateway")] * 6))
        with self.assertRaises(ApiError) as caught:
            made.get_me()
        self.assertEqual((caught.exception.status, caught.exception.code, len(pauses)), (502, "", 5))
        self.assertEqual(str(caught.exception), "status 502 without an error of the API: bad gateway")

    def test_no_pause_is_too_long_to_sleep(self) -> None:
        made, _ = client(Script(refusal(503, "SERVICE_UNAVAILABLE", "internal", Retry_After="1e400")))
        with self.assertRaises(ApiError) as caught:
            made.get_me()
        self.assertEqual(caught.exception.retry_after, 2**31)

    def test_details_of_another_form_hide_no_error(self) -> None:
        error = {"type": "conflict", "code": "AMBIGUOUS_TOKEN", "message": "no", "request_id": "req_1"}
        for details in ("later", {"candidates": ["later"]}, {"candidates": 1}):
            made, _ = client(Script(httpx.Response(409, json={"error": error | {"details": details}})))
            with self.assertRaises(errors.ConflictError) as caught:
                made.get_me()
            self.assertEqual((caught.exception.details, caught.exception.error.raw["details"]), (None, details))

    def test_a_response_that_cannot_be_decoded_is_a_broken_connection(self) -> None:
        damaged = httpx.Response(200, stream=httpx.ByteStream(b"no gzip"), headers={"Content-Encoding": "gzip"})
        made, _ = client(Script(damaged), max_retries=0)
        with self.assertRaises(ApiConnectionError):
            made.get_me()


def body_of(error: dict[str, Any]) -> tuple[str, str, str]:
    """Code, type and parameter of an error."""
    return error["code"], error["type"], error["param"]


class Pages(unittest.TestCase):
    def pages(self) -> Script:
        """Three pages, one of which is empty."""
        return Script(
            httpx.Response(200, json=ALERTS | {"data": [alert(1), alert(2)], "next_cursor": "c1", "has_more": True}),
            httpx.Response(200, json=ALERTS | {"data": [], "next_cursor": "c2", "has_more": True}),
            httpx.Response(200, json=ALERTS | {"data": [alert(3)]}),
        )

    def test_an_iterator_reads_pages_as_they_are_needed(self) -> None:
        script = self.pages()
        made, _ = client(script)
        rows = made.iterate_alerts(limit=2)
        self.assertEqual(script.requests, [])
        self.assertEqual([next(rows).id, next(rows).id], ["al_1", "al_2"])
        self.assertEqual(len(script.requests), 1)
        self.assertEqual([row.id for row in rows], ["al_3"])
        queries = [str(request.url.params) for request in script.requests]
        self.assertEqual(queries, ["limit=2", "limit=2&cursor=c1", "limit=2&cursor=c2"])

    def test_with_asyncio_too(self) -> None:
        script = self.pages()

        async def read() -> list[str]:
            made, _ = async_client(script)
            async with made:
                return [row.id async for row in made.iterate_alerts()]

        self.assertEqual(asyncio.run(read()), ["al_1", "al_2", "al_3"])
        self.check_sizes(script)

    def test_a_list_that_is_read_as_a_whole_has_the_largest_pages(self) -> None:
        script = self.pages()
        made, _ = client(script)
        self.assertEqual(len(list(made.iterate_alerts())), 3)
        self.check_sizes(script)

    def check_sizes(self, script: Script) -> None:
        """The pages have the largest size."""
        queries = [str(request.url.params) for request in script.requests]
        self.assertEqual(queries, ["limit=100", "limit=100&cursor=c1", "limit=100&cursor=c2"])

    def test_an_async_client_tries_again(self) -> None:
        async def read() -> list[float]:
            script = Script(httpx.ConnectError("refused"), httpx.Response(200, json=alert(1)))
            made, pauses = async_client(script)
            await made.get_alert("al_1")
            return pauses

        self.assertEqual(len(asyncio.run(read())), 1)


if __name__ == "__main__":
    unittest.main()
