//! The list envelope.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ArrayBuilder, ObjectBuilder, Ref, RefOr, Schema, Type, schema::SchemaType},
};

use super::{Event, Thesis, Webhook, WebhookDelivery, constant, each};
use crate::v1;

/// One page of a list.
#[derive(Debug, Serialize)]
pub struct List<'a, T> {
    object: &'static str,
    data: Vec<T>,
    next_cursor: Option<&'a str>,
    has_more: bool,
}

impl<'a, T> List<'a, T> {
    /// A page of these rows; the cursor, if any, continues after them.
    #[must_use]
    pub fn new(data: Vec<T>, next_cursor: Option<&'a str>, has_more: bool) -> Self {
        Self { object: "list", data, next_cursor, has_more }
    }
}

/// A resource whose lists have a name.
pub trait Listed: ToSchema {
    /// The schema name of the list.
    const LIST: &'static str;
}

/// A page of theses.
pub type ThesisList<'a> = List<'a, Thesis<'a>>;
/// A page of events.
pub type EventList<'a> = List<'a, Event<'a>>;
/// A page of webhooks.
pub type WebhookList<'a> = List<'a, Webhook<'a>>;
/// A page of a delivery log.
pub type WebhookDeliveryList<'a> = List<'a, WebhookDelivery<'a>>;

macro_rules! lists {
    ($($item:ident, $name:literal, $response:ident;)+) => {
        $(impl Listed for $item<'_> {
            const LIST: &'static str = $name;
        }

        impl<'a> From<&'a v1::$response> for List<'a, $item<'a>> {
            fn from(page: &'a v1::$response) -> Self {
                Self::new(each(&page.data), page.next_cursor.as_deref(), page.has_more)
            }
        })+
    };
}

lists! {
    Thesis, "ThesisList", ListThesesResponse;
    Event, "EventList", ListEventsResponse;
    Webhook, "WebhookList", ListWebhooksResponse;
    WebhookDelivery, "WebhookDeliveryList", ListDeliveriesResponse;
}

// By hand, because the derive would call it `List_Thesis`.
impl<T: Listed> PartialSchema for List<'_, T> {
    fn schema() -> RefOr<Schema> {
        let data = ArrayBuilder::new().items(Ref::from_schema_name(T::name())).description(Some("The page's rows."));
        let cursor = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some("Continues the list; null on its last page."));
        let more = ObjectBuilder::new().schema_type(Type::Boolean).description(Some("Whether there are more pages."));
        ObjectBuilder::new()
            .description(Some(format!("One page of a list; a row is a `{}`.", T::name())))
            .property("object", constant("list"))
            .required("object")
            .property("data", data)
            .required("data")
            .property("next_cursor", cursor)
            .required("next_cursor")
            .property("has_more", more)
            .required("has_more")
            .into()
    }
}

impl<T: Listed> ToSchema for List<'_, T> {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed(T::LIST)
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}
