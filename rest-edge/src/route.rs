//! A route: the handler of a method on a path, with its description. A route cannot be registered without a
//! description.

use futures::future::BoxFuture;
use http::{HeaderValue, Method};
use rest_edge_console::Operation;
use thesis_proto::error::ErrorCode;
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use crate::{
    answer::Answer,
    call::{Call, RequestForm},
    context::Context,
    input::{Kind, Param},
};

pub(crate) type Handler = for<'a> fn(&'a Context, &'a mut Call) -> BoxFuture<'a, Answer>;

/// A route of a method and a path: `route!(GET, "/v1/theses", "ThesisService/ListTheses", list)`.
macro_rules! route {
    ($method:ident, $path:literal, $operation:literal, $handler:ident) => {
        Route::new(http::Method::$method, $path, $operation, |edge, call| Box::pin($handler(edge, call)))
    };
}
pub(crate) use route;

pub(crate) struct Route {
    pub(crate) method: Method,
    /// The path with at most two parameters. The second one may be a `{*parameter}` for the rest of the path.
    pub(crate) path: &'static str,
    /// The rpc as `Service/Method`; none if the route needs no key.
    pub(crate) operation: Option<&'static str>,
    /// The rpc of a route that needs no key, if it calls core. Core limits it by the caller's address.
    pub(crate) open_rpc: Option<&'static str>,
    pub(crate) handler: Handler,
    pub(crate) query: &'static [Param],
    /// The request headers in addition to the common ones.
    pub(crate) headers: &'static [Param],
    /// The fields of the JSON body, if the route takes one.
    pub(crate) body: Option<&'static [Param]>,
    /// The name of the body's schema, if the body has fields.
    pub(crate) body_name: &'static str,
    /// The operation id in the description.
    pub(crate) id: &'static str,
    pub(crate) tag: &'static str,
    /// One sentence about the operation.
    pub(crate) summary: &'static str,
    /// The rules of the operation, in Markdown.
    pub(crate) about: &'static str,
    /// The scope that the key needs, if any.
    pub(crate) scope: Option<&'static str>,
    /// The rate class of its requests.
    pub(crate) class: &'static str,
    /// The description of the path parameter.
    pub(crate) path_parameter: &'static str,
    /// The description of the second path parameter.
    pub(crate) path_rest: &'static str,
    /// A value of the path parameter that works in the sandbox.
    pub(crate) path_example: Option<&'static str>,
    /// Limit for the path parameter in characters.
    pub(crate) path_chars: usize,
    /// True if the response is one resource or document, with an `ETag`.
    pub(crate) tagged: bool,
    /// True if it answers parts too, by `Range`, and has an `ETag`.
    pub(crate) has_parts: bool,
    /// True if a request may carry an idempotency key.
    pub(crate) repeatable: bool,
    pub(crate) status: u16,
    /// The response of success.
    pub(crate) answers: SuccessResponse,
    /// Error codes in addition to the common ones of its kind of route.
    pub(crate) fails: &'static [ErrorCode],
}

/// The response of success.
pub(crate) enum SuccessResponse {
    /// JSON with a named schema, and the schemas that it refers to.
    Resource(String, Vec<(String, RefOr<Schema>)>),
    /// JSON with a schema of `messages.json` that has this name.
    Object(&'static str),
    /// Another media type than JSON, with a description and an example.
    Bytes { kind: &'static str, about: &'static str, example: &'static str },
    /// A stream of Server-Sent Events.
    Events,
    /// A WebSocket on the same connection.
    Upgrade,
}

impl Route {
    pub(crate) fn new(method: Method, path: &'static str, operation: &'static str, handler: Handler) -> Self {
        Self {
            repeatable: matches!(method, Method::POST | Method::PATCH),
            method,
            path,
            operation: Some(operation),
            open_rpc: None,
            handler,
            query: &[],
            headers: &[],
            body: None,
            body_name: "",
            id: "",
            tag: "",
            summary: "",
            about: "",
            scope: None,
            class: "",
            path_parameter: "",
            path_rest: "",
            path_example: None,
            path_chars: 64,
            tagged: false,
            has_parts: false,
            status: 200,
            answers: SuccessResponse::Object("Description"),
            fails: &[],
        }
    }

    /// The operation as the SDKs have it. Streams are no single calls.
    pub(crate) fn as_operation(&self) -> Option<Operation> {
        let is_call = !matches!(self.answers, SuccessResponse::Events | SuccessResponse::Upgrade);
        let integers = self.query.iter().filter(|param| matches!(param.kind, Kind::Integer(..)));
        is_call.then(|| Operation {
            method: self.method.clone(),
            path: self.path,
            id: self.id,
            query: self.query.iter().map(|param| param.name).collect(),
            integers: integers.map(|param| param.name).collect(),
            has_body: self.body.is_some(),
        })
    }

    /// A route that needs no key and does not call core.
    pub(crate) fn public(path: &'static str, handler: Handler) -> Self {
        Self { operation: None, ..Self::new(Method::GET, path, "", handler) }
    }

    /// A route that needs no key and calls core.
    pub(crate) fn open(path: &'static str, rpc: &'static str, handler: Handler) -> Self {
        Self { open_rpc: Some(rpc), ..Self::public(path, handler) }
    }

    pub(crate) fn named(mut self, id: &'static str, tag: &'static str, summary: &'static str) -> Self {
        (self.id, self.tag, self.summary) = (id, tag, summary);
        self
    }

    pub(crate) fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Declares the scope that a key needs, if any, and the rate class.
    pub(crate) fn needs(mut self, scope: Option<&'static str>, class: &'static str) -> Self {
        (self.scope, self.class) = (scope, class);
        self
    }

    pub(crate) fn path_parameter(mut self, about: &'static str) -> Self {
        self.path_parameter = about;
        self
    }

    /// Describes the second path parameter.
    pub(crate) fn path_rest(mut self, about: &'static str) -> Self {
        self.path_rest = about;
        self
    }

    /// Describes the path parameter and limits its length in characters.
    pub(crate) fn path_text(mut self, about: &'static str, chars: usize) -> Self {
        (self.path_parameter, self.path_chars) = (about, chars);
        self
    }

    pub(crate) fn path_example(mut self, value: &'static str) -> Self {
        self.path_example = Some(value);
        self
    }

    pub(crate) fn tagged(mut self) -> Self {
        self.tagged = true;
        self
    }

    pub(crate) fn in_parts(mut self) -> Self {
        self.has_parts = true;
        self
    }

    /// Declares that the route ignores idempotency keys.
    pub(crate) fn never_repeated(mut self) -> Self {
        self.repeatable = false;
        self
    }

    pub(crate) fn query(mut self, query: &'static [Param]) -> Self {
        self.query = query;
        self
    }

    pub(crate) fn headers(mut self, headers: &'static [Param]) -> Self {
        self.headers = headers;
        self
    }

    pub(crate) fn body(mut self, name: &'static str, fields: &'static [Param]) -> Self {
        (self.body_name, self.body) = (name, Some(fields));
        self
    }

    /// Declares that the body, if present, is an object without fields.
    pub(crate) fn empty_body(mut self) -> Self {
        self.body = Some(&[]);
        self
    }

    pub(crate) fn answers<T: ToSchema>(mut self, status: u16) -> Self {
        let mut schemas = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut schemas);
        self.status = status;
        self.answers = SuccessResponse::Resource(T::name().into_owned(), schemas);
        self
    }

    /// Declares that the response has a schema of `messages.json`.
    pub(crate) fn answers_object(mut self, schema: &'static str) -> Self {
        self.answers = SuccessResponse::Object(schema);
        self
    }

    pub(crate) fn answers_bytes(mut self, kind: &'static str, about: &'static str, example: &'static str) -> Self {
        self.answers = SuccessResponse::Bytes { kind, about, example };
        self
    }

    pub(crate) fn answers_events(mut self) -> Self {
        self.answers = SuccessResponse::Events;
        self
    }

    pub(crate) fn answers_upgrade(mut self) -> Self {
        (self.status, self.answers) = (101, SuccessResponse::Upgrade);
        self
    }

    /// True if the route opens streams.
    pub(crate) fn opens_stream(&self) -> bool {
        matches!(self.answers, SuccessResponse::Events | SuccessResponse::Upgrade)
    }

    pub(crate) fn form(&self) -> RequestForm {
        RequestForm {
            query: self.query,
            body: self.body,
            repeatable: self.repeatable,
            path: self.path,
            status: self.status,
        }
    }

    /// True if the route also supports `HEAD`.
    pub(crate) fn answers_head(&self) -> bool {
        self.method == Method::GET
    }

    pub(crate) fn fails(mut self, codes: &'static [ErrorCode]) -> Self {
        self.fails = codes;
        self
    }
}

/// The routes of one path.
///
/// axum's router does not replace this and the lookup by `matchit`, which it uses itself. The contract has an `Allow`
/// header and an error that list all methods, `OPTIONS` included, and a broken percent-encoding in a path is an error:
/// axum writes its own `Allow`, and passes such paths on. It also clones a service and boxes the future and both bodies
/// for each request, where this lookup allocates nothing.
pub(crate) struct PathRoutes {
    routes: Vec<Route>,
    allow: HeaderValue,
}

impl PathRoutes {
    /// The route of a method, or the value of `Allow`. `HEAD` uses the route of `GET`.
    pub(crate) fn for_method(&self, method: &Method) -> Result<&Route, &HeaderValue> {
        let answers = |route: &&Route| route.method == *method || *method == Method::HEAD && route.answers_head();
        self.routes.iter().find(answers).ok_or(&self.allow)
    }

    pub(crate) fn allow(&self) -> &HeaderValue {
        &self.allow
    }
}

pub(crate) fn router(routes: Vec<Route>) -> matchit::Router<PathRoutes> {
    let mut router = matchit::Router::new();
    let mut routes = routes.into_iter().peekable();
    while let Some(first) = routes.next() {
        let path = first.path;
        let mut group = vec![first];
        while let Some(next) = routes.next_if(|next| next.path == path) {
            group.push(next);
        }
        let mut methods: Vec<_> = group.iter().map(|route| route.method.as_str()).collect();
        if group.iter().any(Route::answers_head) {
            methods.push("HEAD");
        }
        methods.push("OPTIONS");
        let allow = HeaderValue::try_from(methods.join(", ")).expect("method names are tokens");
        router.insert(path, PathRoutes { routes: group, allow }).expect("routes of a path are listed together");
    }
    router
}
