//! The AsyncAPI 3 description of streams and webhooks. It is built from the OpenAPI description, so both have the same
//! schemas, and a new event type or message is in both.

use serde_json::{Map, Value, json};

use crate::openapi::{THIN, TICKET, openapi, pascal};

const ABOUT: &str = "The events of trade theses, as streams and webhooks send them. The same events are listed by \
    `GET /v1/events`; the OpenAPI description has that and all other operations, and the same schemas.\n\n\
    **Once and complete.** The same event has the same `id` everywhere. A stream resumes after a cursor without loss, \
    and says so when something is missing. A webhook gets an event at least once.\n\n\
    **Changes.** New event types, messages and fields may come: ignore those that you do not know.";

/// The schemas of the description that others refer to.
const SCHEMAS: &str = "#/components/schemas/";

/// Builds the description for a public URL and the day of a time in Unix milliseconds.
pub(crate) fn asyncapi(public_url: &str, now_ms: i64) -> Value {
    let openapi = openapi(public_url, now_ms);
    let mut messages = Map::new();
    let channels = [
        events(&openapi, public_url, &mut messages),
        stream(&openapi, public_url, &mut messages),
        webhook(&openapi, public_url, &mut messages),
    ];
    let schemas = schemas(&openapi, &messages.clone().into());
    let info = &openapi["info"];
    let mut document = json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": format!("{}: streams and webhooks", info["title"].as_str().unwrap_or_default()),
            "version": info["version"],
            "description": ABOUT,
            "license": {"name": info["license"]["name"], "url": "https://www.apache.org/licenses/LICENSE-2.0"},
            "externalDocs": openapi["externalDocs"],
        },
        "defaultContentType": "application/json",
        "servers": servers(public_url),
        "channels": {},
        "operations": {},
        "components": {
            "messages": messages,
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key with the scope `streams:read`.",
                },
                TICKET: {
                    "type": "httpApiKey",
                    "in": "query",
                    "name": TICKET,
                    "description": "A ticket of `POST /v1/stream/tickets`, in place of a key.",
                },
            },
        },
    });
    for Channel { name, channel, operations } in channels {
        document["channels"][name] = channel;
        for (operation_name, operation) in operations {
            document["operations"][operation_name] = operation;
        }
    }
    document
}

/// A channel of the document, with its operations by name.
struct Channel {
    name: &'static str,
    channel: Value,
    operations: Vec<(&'static str, Value)>,
}

/// Both streams are at the public URL. Webhooks are requests to an address of the customer.
fn servers(public_url: &str) -> Value {
    let (scheme, host) = public_url.split_once("://").unwrap_or(("http", public_url));
    let security = json!([
        {"$ref": "#/components/securitySchemes/bearer"},
        {"$ref": format!("#/components/securitySchemes/{TICKET}")},
    ]);
    json!({
        "api": {
            "host": host,
            "protocol": scheme,
            "description": "Server-Sent Events of this deployment.",
            "security": security,
        },
        "socket": {
            "host": host,
            // http becomes ws, https wss.
            "protocol": scheme.replacen("http", "ws", 1),
            "description": "WebSockets of this deployment. The first message may contain the key.",
            "security": security,
        },
        "endpoint": {
            "host": "{host}",
            "protocol": "https",
            "description": "Your endpoint: the `url` of a webhook.",
            "variables": {"host": {"description": "Its host.", "examples": ["hooks.example.com"]}},
        },
    })
}

/// The channel of Server-Sent Events.
fn events(openapi: &Value, public_url: &str, messages: &mut Map<String, Value>) -> Channel {
    let route = &openapi["paths"]["/v1/events/stream"]["get"];
    let mut names = Vec::new();
    for (event_type, schema) in entries(&route["x-event-stream"]) {
        let title = format!("The `data` of a frame whose `event` is `{event_type}`; its `id` is a cursor.");
        let mut message = message(event_type, &title, schema);
        give_example(&mut message, &openapi["webhooks"][event_type]["post"]);
        names.push(pascal(event_type));
        messages.insert(pascal(event_type), message);
    }
    let guide = format!("{public_url}/docs/streams");
    let channel = channel("/v1/events/stream", route, "api", &guide, &names);
    let binding = json!({"http": {"method": "GET", "query": parameters(route, "query")}});
    let send = operation("send", "events", "Sends events as they happen.", &names, &binding);
    Channel { name: "events", channel, operations: vec![("sendEvents", send)] }
}

/// The channel of WebSockets.
fn stream(openapi: &Value, public_url: &str, messages: &mut Map<String, Value>) -> Channel {
    let route = &openapi["paths"]["/v1/stream"]["get"];
    let mut names_of = |side: &str| {
        let union = resolved(openapi, &route["x-websocket-messages"][side]);
        let mut names = Vec::new();
        for (op, reference) in entries(&union["discriminator"]["mapping"]) {
            let schema = json!({"$ref": reference});
            let described = resolved(openapi, &schema);
            let mut message = message(op, described["description"].as_str().unwrap_or_default(), &schema);
            message["examples"] = json!([{"payload": described["examples"][0]}]);
            let name = name_of(&schema).to_owned();
            messages.insert(name.clone(), message);
            names.push(name);
        }
        names
    };
    let (requests, answers) = (names_of("client"), names_of("server"));
    let guide = format!("{public_url}/docs/streams-websocket");
    let mut channel = channel("/v1/stream", route, "socket", &guide, &[&*requests, &*answers].concat());
    channel["bindings"] = json!({"ws": {"method": "GET"}});
    let none = json!({});
    let receive = operation("receive", "stream", "Receives the requests of a client.", &requests, &none);
    let send = operation("send", "stream", "Sends events, and answers to requests.", &answers, &none);
    Channel { name: "stream", channel, operations: vec![("receiveRequests", receive), ("sendMessages", send)] }
}

/// The channel of webhooks: a message for each event type, the test delivery, and the thin payload.
fn webhook(openapi: &Value, public_url: &str, messages: &mut Map<String, Value>) -> Channel {
    let mut names = Vec::new();
    let mut route = &Value::Null;
    for (event_type, item) in entries(&openapi["webhooks"]) {
        route = &item["post"];
        let content = &route["requestBody"]["content"]["application/json"];
        let mut message = message(event_type, summary(route), &content["schema"]["anyOf"][0]);
        message["headers"] = parameters(route, "header");
        give_example(&mut message, route);
        let name = pascal(event_type) + "Delivery";
        messages.insert(name.clone(), message);
        names.push(name);
    }
    let thin = json!({"$ref": format!("{SCHEMAS}{THIN}")});
    let mut message = message("thin", "Any event, for a webhook with the payload `thin`.", &thin);
    message["headers"] = parameters(route, "header");
    messages.insert("ThinDelivery".to_owned(), message);
    names.push("ThinDelivery".to_owned());
    let guide = format!("{public_url}/docs/webhooks");
    let mut channel = channel("", route, "endpoint", &guide, &names);
    channel["address"] = Value::Null;
    channel["summary"] = json!("Events sent to the `url` of each webhook that wants them.");
    let binding = json!({"http": {"method": "POST"}});
    let send = operation("send", "webhook", "Sends an event to an endpoint, signed.", &names, &binding);
    Channel { name: "webhook", channel, operations: vec![("sendDeliveries", send)] }
}

fn channel(address: &str, route: &Value, server: &str, guide: &str, names: &[String]) -> Value {
    let messages = names.iter().map(|name| (name.clone(), json!({"$ref": format!("#/components/messages/{name}")})));
    json!({
        "address": address,
        "summary": summary(route),
        "description": route["description"],
        "servers": [{"$ref": format!("#/servers/{server}")}],
        "messages": messages.collect::<Map<_, _>>(),
        "externalDocs": {"description": "Guide", "url": guide},
    })
}

fn operation(action: &str, channel: &str, summary: &str, names: &[String], bindings: &Value) -> Value {
    let messages = names.iter().map(|name| json!({"$ref": format!("#/channels/{channel}/messages/{name}")}));
    json!({
        "action": action,
        "channel": {"$ref": format!("#/channels/{channel}")},
        "summary": summary,
        "messages": messages.collect::<Vec<_>>(),
        "bindings": bindings,
    })
}

fn message(name: &str, summary: &str, schema: &Value) -> Value {
    json!({"name": name, "summary": summary, "payload": schema})
}

/// Adds the example of a webhook's request, if there is one.
fn give_example(message: &mut Value, request: &Value) {
    let example = &request["requestBody"]["content"]["application/json"]["example"];
    if !example.is_null() {
        message["examples"] = json!([{"payload": example}]);
    }
}

/// The schema of an operation's query or headers, as an object.
fn parameters(operation: &Value, place: &str) -> Value {
    let all = operation["parameters"].as_array().into_iter().flatten();
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for parameter in all.filter(|parameter| parameter["in"] == place) {
        let mut schema = parameter["schema"].clone();
        schema["description"] = parameter["description"].clone();
        let name = parameter["name"].as_str().unwrap_or_default();
        properties.insert(name.to_owned(), schema);
        if parameter["required"] == true {
            required.push(name);
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}

/// The schemas that messages refer to, directly or through other schemas. Discriminators are removed: AsyncAPI has
/// another kind, and the constants in the alternatives identify them too.
fn schemas(openapi: &Value, messages: &Value) -> Map<String, Value> {
    let (mut found, mut unread) = (Map::new(), references(messages));
    while let Some(name) = unread.pop() {
        if found.contains_key(&name) {
            continue;
        }
        let mut schema = openapi["components"]["schemas"][&name].clone();
        if let Some(fields) = schema.as_object_mut() {
            fields.remove("discriminator");
        }
        unread.extend(references(&schema));
        found.insert(name, schema);
    }
    found
}

/// The names of the schemas to which a value refers.
fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix(SCHEMAS));
            own.map(str::to_owned).into_iter().chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(values) => values.iter().flat_map(references).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// The name of the schema to which another refers.
fn name_of(schema: &Value) -> &str {
    schema["$ref"].as_str().and_then(|path| path.strip_prefix(SCHEMAS)).unwrap_or_default()
}

/// The schema to which another refers.
fn resolved<'a>(openapi: &'a Value, schema: &Value) -> &'a Value {
    &openapi["components"]["schemas"][name_of(schema)]
}

fn summary(operation: &Value) -> &str {
    operation["summary"].as_str().unwrap_or_default()
}

fn entries(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    object.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}
