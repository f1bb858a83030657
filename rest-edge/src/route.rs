//! A route: the handler of a method on a path, and its description. Neither can be registered without the other.

use futures::future::BoxFuture;
use http::{HeaderValue, Method};
use thesis_proto::error::ErrorCode;
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use crate::{
    answer::Answer,
    call::{Call, Form},
    context::Context,
    input::Param,
};

/// Answers a request.
pub(crate) type Handler = for<'a> fn(&'a Context, &'a mut Call) -> BoxFuture<'a, Answer>;

/// The handler of a method on a path, and its part of the API's description.
pub(crate) struct Route {
    /// The method.
    pub(crate) method: Method,
    /// The path, with at most one `{parameter}`.
    pub(crate) path: &'static str,
    /// The rpc, as `Service/Method`; none if no key is needed.
    pub(crate) operation: Option<&'static str>,
    /// Answers requests.
    pub(crate) handler: Handler,
    /// The query parameters it reads.
    pub(crate) query: &'static [Param],
    /// The request headers it reads besides the common ones.
    pub(crate) headers: &'static [Param],
    /// The fields of its JSON body, if it takes one.
    pub(crate) body: Option<&'static [Param]>,
    /// The name of the body's schema, if it has fields.
    pub(crate) body_name: &'static str,
    /// The operation's id in the description.
    pub(crate) id: &'static str,
    /// The resource it belongs to.
    pub(crate) tag: &'static str,
    /// What it does, in a sentence.
    pub(crate) summary: &'static str,
    /// Its rules, in Markdown.
    pub(crate) about: &'static str,
    /// The scope that a key needs, if it needs one.
    pub(crate) scope: Option<&'static str>,
    /// The rate class in which its requests are counted.
    pub(crate) class: &'static str,
    /// The path parameter's description.
    pub(crate) path_parameter: &'static str,
    /// A value of the path's parameter that works in the sandbox.
    pub(crate) path_example: Option<&'static str>,
    /// Most characters of the path's parameter.
    pub(crate) path_chars: usize,
    /// Whether its answer is one resource or document, which carries an `ETag`.
    pub(crate) tagged: bool,
    /// Whether a request may carry an idempotency key.
    pub(crate) repeatable: bool,
    /// The status of success.
    pub(crate) status: u16,
    /// What success returns.
    pub(crate) answers: Answers,
    /// Codes of failure beyond those that its kind of route always has.
    pub(crate) fails: &'static [ErrorCode],
}

/// What success returns.
pub(crate) enum Answers {
    /// JSON of a named schema, and the schemas that it refers to.
    Resource(String, Vec<(String, RefOr<Schema>)>),
    /// Any JSON object.
    Object,
    /// Server-Sent Events.
    Events,
    /// Another protocol on the same connection.
    Upgrade,
}

impl Route {
    /// A route that calls an rpc of core.
    pub(crate) fn new(method: Method, path: &'static str, operation: &'static str, handler: Handler) -> Self {
        Self {
            repeatable: matches!(method, Method::POST | Method::PATCH),
            method,
            path,
            operation: Some(operation),
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
            path_example: None,
            path_chars: 64,
            tagged: false,
            status: 200,
            answers: Answers::Object,
            fails: &[],
        }
    }

    /// A route that needs no key and no core.
    pub(crate) fn public(path: &'static str, handler: Handler) -> Self {
        Self { operation: None, ..Self::new(Method::GET, path, "", handler) }
    }

    /// Sets id, tag and summary.
    pub(crate) fn named(mut self, id: &'static str, tag: &'static str, summary: &'static str) -> Self {
        (self.id, self.tag, self.summary) = (id, tag, summary);
        self
    }

    /// Describes its rules, in Markdown.
    pub(crate) fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Declares the scope that a key needs, if it needs one, and the rate class in which requests are counted.
    pub(crate) fn needs(mut self, scope: Option<&'static str>, class: &'static str) -> Self {
        (self.scope, self.class) = (scope, class);
        self
    }

    /// Describes the path's parameter.
    pub(crate) fn path_parameter(mut self, about: &'static str) -> Self {
        self.path_parameter = about;
        self
    }

    /// Describes the path's parameter, and sets the most characters it may have.
    pub(crate) fn path_text(mut self, about: &'static str, chars: usize) -> Self {
        (self.path_parameter, self.path_chars) = (about, chars);
        self
    }

    /// Gives a value of the path's parameter that works in the sandbox.
    pub(crate) fn path_example(mut self, value: &'static str) -> Self {
        self.path_example = Some(value);
        self
    }

    /// Declares that the answer is one resource.
    pub(crate) fn tagged(mut self) -> Self {
        self.tagged = true;
        self
    }

    /// Declares that an idempotency key has no effect here.
    pub(crate) fn never_repeated(mut self) -> Self {
        self.repeatable = false;
        self
    }

    /// Declares the query parameters.
    pub(crate) fn query(mut self, query: &'static [Param]) -> Self {
        self.query = query;
        self
    }

    /// Declares request headers.
    pub(crate) fn headers(mut self, headers: &'static [Param]) -> Self {
        self.headers = headers;
        self
    }

    /// Declares the JSON body: the name of its schema, and its fields.
    pub(crate) fn body(mut self, name: &'static str, fields: &'static [Param]) -> Self {
        (self.body_name, self.body) = (name, Some(fields));
        self
    }

    /// Declares that the body, if there is one, is an object without fields.
    pub(crate) fn empty_body(mut self) -> Self {
        self.body = Some(&[]);
        self
    }

    /// Declares the status and JSON of success.
    pub(crate) fn answers<T: ToSchema>(mut self, status: u16) -> Self {
        let mut schemas = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut schemas);
        self.status = status;
        self.answers = Answers::Resource(T::name().into_owned(), schemas);
        self
    }

    /// Declares that success is a stream of events.
    pub(crate) fn answers_events(mut self) -> Self {
        self.answers = Answers::Events;
        self
    }

    /// Declares that the connection goes on as a WebSocket.
    pub(crate) fn answers_upgrade(mut self) -> Self {
        (self.status, self.answers) = (101, Answers::Upgrade);
        self
    }

    /// Whether it opens streams.
    pub(crate) fn opens_stream(&self) -> bool {
        matches!(self.answers, Answers::Events | Answers::Upgrade)
    }

    /// What its requests may hold.
    pub(crate) fn form(&self) -> Form {
        Form { query: self.query, body: self.body, repeatable: self.repeatable }
    }

    /// Whether it answers `HEAD` too.
    pub(crate) fn answers_head(&self) -> bool {
        self.method == Method::GET
    }

    /// Declares further codes of failure.
    pub(crate) fn fails(mut self, codes: &'static [ErrorCode]) -> Self {
        self.fails = codes;
        self
    }
}

/// The routes of one path.
pub(crate) struct PathRoutes {
    routes: Vec<Route>,
    allow: HeaderValue,
}

impl PathRoutes {
    /// The route of a method, or the value of `Allow`. `HEAD` takes the route of `GET`.
    pub(crate) fn of(&self, method: &Method) -> Result<&Route, &HeaderValue> {
        let answers = |route: &&Route| route.method == *method || *method == Method::HEAD && route.answers_head();
        self.routes.iter().find(answers).ok_or(&self.allow)
    }

    /// The value of `Allow`.
    pub(crate) fn allow(&self) -> &HeaderValue {
        &self.allow
    }
}

/// All routes, found by path.
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
