//! Alerts: their rules and states over REST and gRPC, and their events on every transport.

use serde_json::{Value, json};
use thesis_proto::{
    json::{Alert, event_json},
    v1::{
        self, Environment, alert_service_client::AlertServiceClient, event_service_client::EventServiceClient,
        subscribe_response::Message,
    },
};
use tokio::time::timeout;

use crate::{
    grpc::with_key,
    harness::{ALL_SCOPES, Client, Receiver, SOON, Service, eventually, ids, rows, text, time},
};

on_both_stores![
    a_rule_is_managed,
    wrong_rules_are_refused,
    what_belongs_to_others_is_not_found,
    grpc_and_rest_show_the_same,
    each_crossing_reaches_every_transport_once,
    who_does_not_name_them_gets_none,
    cursors_work_with_and_without_alerts,
    a_new_rule_judges_at_once,
    a_retried_request_creates_one_alert,
];

const FIRING: &str = "alert.firing";
const RESOLVED: &str = "alert.resolved";

/// An alert over the theses of the last 24 hours on a token of test theses, which exists afterwards.
async fn create(client: &Client, token: &str, above: u32) -> Value {
    client.thesis("writer", token, "the first").await;
    let body = json!({"name": token, "token": token, "metric": "thesis_count_24h", "above": above});
    client.post("/v1/alerts", &body).await.ok(201)
}

fn path(alert: &Value) -> String {
    format!("/v1/alerts/{}", text(alert, "id"))
}

async fn post(client: &Client, token: &str, number: usize) {
    for index in 0..number {
        client.thesis("writer", token, &format!("thesis {index}")).await;
    }
}

/// The alerts' events of a client, oldest first, once there are this many.
async fn events(client: &Client, number: usize) -> Vec<Value> {
    let list = format!("/v1/events?types={FIRING},{RESOLVED}");
    let mut found = eventually("events of alerts", SOON, async || {
        let found = client.all(&list).await;
        (found.len() >= number).then_some(found)
    })
    .await;
    found.reverse();
    found
}

async fn a_rule_is_managed(service: &Service) {
    let client = service.test_client().await;
    let made = create(&client, "MANAGED", 5).await;
    let expected = json!({
        "object": "alert", "id": made["id"], "name": "MANAGED", "token": made["token"], "metric": "thesis_count_24h",
        "above": 5.0, "below": null, "recover": 5.0, "for": "0s", "keep_firing_for": "0s", "state": "ok",
        "state_since": made["state_since"], "livemode": false, "created_at": made["created_at"],
        "updated_at": made["created_at"],
    });
    assert_eq!(made, expected);
    assert_eq!(made["token"]["symbol"], "$MANAGED");
    assert_eq!(client.get(&path(&made)).await.ok(200), made);
    assert_eq!(client.patch(&path(&made), &json!({})).await.ok(200), made, "an empty change changes nothing");
    let change = json!({"name": "other", "above": null, "below": 0.5, "for": "90s", "keep_firing_for": "2d"});
    let changed = client.patch(&path(&made), &change).await.ok(200);
    let mut expected = made.clone();
    for (field, value) in [
        ("name", json!("other")),
        ("above", Value::Null),
        ("below", json!(0.5)),
        ("recover", json!(0.5)),
        ("for", json!("90s")),
        ("keep_firing_for", json!("2d")),
        ("updated_at", changed["updated_at"].clone()),
    ] {
        expected[field] = value;
    }
    assert_eq!(changed, expected);
    assert!(time(&changed, "updated_at") > time(&made, "updated_at"));
    let second = create(&client, "MANAGED", 7).await;
    let page = client.get("/v1/alerts?limit=1").await.ok(200);
    assert_eq!((ids(rows(&page)), &page["has_more"]), (vec![text(&second, "id")], &json!(true)));
    assert_eq!(ids(&client.all("/v1/alerts").await), [text(&second, "id"), text(&made, "id")]);
    let gone = client.delete(&path(&made)).await.ok(200);
    assert_eq!(gone, json!({"object": "alert", "id": made["id"], "deleted": true}));
    client.get(&path(&made)).await.error(404, "ALERT_NOT_FOUND");
    client.delete(&path(&made)).await.error(404, "ALERT_NOT_FOUND");
}

async fn wrong_rules_are_refused(service: &Service) {
    let client = service.test_client().await;
    let alert = create(&client, "WRONG", 5).await;
    let good = json!({"name": "x", "token": "WRONG", "metric": "change_pct", "above": 5});
    for (change, field) in [
        (json!({"above": null}), "above"),
        (json!({"below": 3}), "below"),
        (json!({"recover": 6}), "recover"),
        (json!({"above": 1e13}), "above"),
        (json!({"for": "8d"}), "for"),
    ] {
        let mut body = good.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        client.post("/v1/alerts", &body).await.invalid(&[field]);
        client.patch(&path(&alert), &change).await.invalid(&[field]);
    }
    client.patch(&path(&alert), &json!({"metric": "change_pct"})).await.invalid(&["metric"]);
    let unknown = json!({"name": "x", "token": "NOSUCHTOKEN", "metric": "change_pct", "above": 5});
    client.post("/v1/alerts", &unknown).await.error(404, "TOKEN_NOT_FOUND");
    assert_eq!(client.get(&path(&alert)).await.ok(200)["updated_at"], alert["updated_at"]);
}

async fn what_belongs_to_others_is_not_found(service: &Service) {
    let (client, other) = (service.test_client().await, service.test_client().await);
    let alert = create(&client, "OWNED", 5).await;
    other.get(&path(&alert)).await.error(404, "ALERT_NOT_FOUND");
    other.patch(&path(&alert), &json!({})).await.error(404, "ALERT_NOT_FOUND");
    other.delete(&path(&alert)).await.error(404, "ALERT_NOT_FOUND");
    assert!(other.all("/v1/alerts").await.is_empty());
}

async fn grpc_and_rest_show_the_same(service: &Service) {
    let key = service.project_on("huge").await.key(Environment::Test, ALL_SCOPES).await;
    let over_rest = create(&key.client, "BOTH", 5).await;
    let mut client = AlertServiceClient::new(service.channel());
    let request = v1::GetAlertRequest { id: text(&over_rest, "id").to_owned() };
    let read = client.get_alert(with_key(&key.raw, request)).await.unwrap().into_inner().alert.unwrap();
    assert_eq!(serde_json::to_value(Alert::from(&read)).unwrap(), over_rest);
    let change = v1::UpdateAlertRequest { id: read.id.clone(), above: Some(9.0), ..Default::default() };
    let changed = client.update_alert(with_key(&key.raw, change)).await.unwrap().into_inner().alert.unwrap();
    assert_eq!((changed.above, changed.recover), (Some(9.0), 9.0));
    let listed = client.list_alerts(with_key(&key.raw, v1::ListAlertsRequest::default())).await.unwrap();
    assert_eq!(listed.into_inner().data, [changed]);
    client.delete_alert(with_key(&key.raw, v1::DeleteAlertRequest { id: read.id })).await.unwrap();
    key.client.get(&path(&over_rest)).await.error(404, "ALERT_NOT_FOUND");
}

async fn each_crossing_reaches_every_transport_once(service: &Service) {
    let key = service.project_on("huge").await.key(Environment::Test, ALL_SCOPES).await;
    let (client, receiver) = (&key.client, Receiver::start().await);
    let alert = create(client, "CROSSED", 3).await;
    client.webhook(&receiver.url, &[FIRING, RESOLVED]).await;
    let types = format!("?types={FIRING},{RESOLVED}");
    let mut stream = client.stream(&types).await;
    let mut socket = client.socket().await;
    let subscribed = socket.ask(&json!({"op": "subscribe", "sub": "a", "types": [FIRING, RESOLVED]})).await;
    assert_eq!(subscribed["op"], "subscribed");
    let types = [v1::EventType::AlertFiring.into(), v1::EventType::AlertResolved.into()].to_vec();
    let request = with_key(&key.raw, v1::SubscribeRequest { types, ..Default::default() });
    let mut called = EventServiceClient::new(service.first_core()).subscribe(request).await.unwrap().into_inner();

    // With the first one there are 4, where the new rule resolves.
    post(client, "CROSSED", 3).await;
    let firing = events(client, 1).await.remove(0);
    assert_eq!((&firing["type"], &firing["source"]), (&json!(FIRING), &json!("sandbox")));
    let data = &firing["data"];
    assert_eq!((&data["value"], &data["threshold"]), (&json!(4.0), &json!(3.0)));
    assert_eq!((&data["alert"]["id"], &data["alert"]["state"]), (&alert["id"], &json!("firing")));
    client.patch(&path(&alert), &json!({"above": 8, "recover": 5})).await.ok(200);
    let both = events(client, 2).await;
    let data = &both[1]["data"];
    assert_eq!((&both[1]["type"], &data["value"], &data["threshold"]), (&json!(RESOLVED), &json!(4.0), &json!(5.0)));
    assert_eq!(both[0], firing);

    for event in &both {
        assert_eq!(client.get(&format!("/v1/events/{}", text(event, "id"))).await.ok(200), *event);
        assert_eq!(stream.next().await.data, *event);
        assert_eq!(socket.next().await["event"], *event);
        assert_eq!(receiver.delivery_of(event).await.event(), *event);
        let sent = loop {
            let message = timeout(SOON, called.message()).await.unwrap().unwrap().unwrap().message.unwrap();
            if let Message::Event(sent) = message {
                break sent.event.unwrap();
            }
        };
        assert_eq!(serde_json::from_slice::<Value>(&event_json(&sent)).unwrap(), *event);
    }
    // More theses inside the band report nothing.
    post(client, "CROSSED", 2).await;
    assert_eq!(events(client, 2).await, both);
    assert_eq!(client.get(&path(&alert)).await.ok(200)["state"], "ok");
}

async fn who_does_not_name_them_gets_none(service: &Service) {
    let client = service.project_on("huge").await.test().await;
    create(&client, "UNNAMED", 1).await;
    let mut stream = client.stream("?token=UNNAMED").await;
    post(&client, "UNNAMED", 1).await;
    events(&client, 1).await;
    let (_, last) = client.thesis("writer", "UNNAMED", "the last").await;
    loop {
        let frame = stream.next().await;
        assert!(!frame.event.starts_with("alert."), "{frame:?}");
        if frame.data == last {
            break;
        }
    }
    let listed = client.all("/v1/events?token=UNNAMED").await;
    assert!(listed.iter().all(|event| !text(event, "type").starts_with("alert.")));
    let named = client.all(&format!("/v1/events?token=UNNAMED&types={FIRING},thesis.created")).await;
    assert_eq!(named.iter().filter(|event| event["type"] == FIRING).count(), 1);
}

async fn cursors_work_with_and_without_alerts(service: &Service) {
    let client = service.project_on("huge").await.test().await;
    create(&client, "RESUMED", 2).await;
    let mut plain = client.stream("?types=thesis.created&token=RESUMED").await;
    post(&client, "RESUMED", 3).await;
    let firing = events(&client, 1).await.remove(0);
    let first = plain.next().await;
    // The cursor is older than the crossing, and of a stream without alerts.
    let both = format!("?types=thesis.created,{FIRING}&token=RESUMED");
    let mut resumed = client.resume(&both, first.cursor()).await;
    let frames = resumed.take(3).await;
    let alert = frames.iter().find(|frame| frame.event == FIRING).expect("the alert's event");
    assert_eq!(alert.data, firing);
    // The cursor of one with alerts continues one without them.
    let last = frames.last().unwrap();
    let (_, next) = client.thesis("writer", "RESUMED", "the next").await;
    let mut without = client.resume("?types=thesis.created&token=RESUMED", last.cursor()).await;
    assert_eq!(without.next().await.data, next);
    let mut again = client.resume(&both, last.cursor()).await;
    assert_eq!(again.next().await.data, next, "what was received does not come again");
}

async fn a_new_rule_judges_at_once(service: &Service) {
    let client = service.project_on("huge").await.test().await;
    let alert = create(&client, "AT-ONCE", 0).await;
    let firing = events(&client, 1).await.remove(0);
    assert_eq!((&firing["data"]["alert"]["id"], &firing["data"]["value"]), (&alert["id"], &json!(1.0)));
    assert_eq!(client.get(&path(&alert)).await.ok(200)["state"], "firing");
    // The page passes over the theses, of which the sandbox has many.
    let page = client.get(&format!("/v1/events?types={FIRING}&limit=1")).await.ok(200);
    assert_eq!((rows(&page).as_slice(), &page["has_more"]), (&[firing.clone()][..], &json!(false)));
    let no_data = json!({"name": "x", "token": "AT-ONCE", "metric": "change_pct", "above": 0});
    let no_data = client.post("/v1/alerts", &no_data).await.ok(201);
    eventually("the state is known", SOON, async || {
        (client.get(&path(&no_data)).await.ok(200)["state"] == "no_data").then_some(())
    })
    .await;
    let waiting = json!({"name": "x", "token": "AT-ONCE", "metric": "unique_authors_24h", "below": 2, "for": "7d"});
    let waiting = client.post("/v1/alerts", &waiting).await.ok(201);
    eventually("the state is known", SOON, async || {
        (client.get(&path(&waiting)).await.ok(200)["state"] == "pending").then_some(())
    })
    .await;
    // A deleted alert reports nothing more.
    client.delete(&path(&alert)).await.ok(200);
    assert_eq!(events(&client, 1).await, [firing]);
}

async fn a_retried_request_creates_one_alert(service: &Service) {
    let client = service.test_client().await;
    client.thesis("writer", "RETRIED", "x").await;
    let body = json!({"name": "x", "token": "RETRIED", "metric": "change_pct", "below": -50, "recover": 0});
    let first = client.post_once("/v1/alerts", &body, "once").await.ok(201);
    assert_eq!(client.post_once("/v1/alerts", &body, "once").await.ok(201), first);
    assert_eq!(ids(&client.all("/v1/alerts").await), [text(&first, "id")]);
}
