//! A form that is filled in.

use url::form_urlencoded::Serializer;

/// One thing that a form may send: an input, a choice of a list, a button.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// Its type; `option` for a choice of a list.
    pub(crate) kind: String,
    pub(crate) value: String,
    /// What it is called on the page.
    pub(crate) label: String,
    /// Whether it is sent as it is now.
    pub(crate) is_sent: bool,
    /// What is said about it, such as what is wrong.
    pub(crate) description: String,
    /// Whether it is marked as wrong.
    pub(crate) is_wrong: bool,
    /// Where its button sends the form, if elsewhere.
    pub(super) action: Option<String>,
}

impl Field {
    /// Whether it is a choice of this name.
    pub(crate) fn is_called(&self, choice: &str) -> bool {
        self.value.eq_ignore_ascii_case(choice) || self.label.eq_ignore_ascii_case(choice)
    }
}

/// A form with what is filled in.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// Where it goes.
    pub(crate) action: String,
    pub(crate) is_post: bool,
    pub(crate) fields: Vec<Field>,
}

impl Form {
    /// A field that must be there.
    pub(crate) fn field(&self, name: &str) -> &Field {
        let found = self.fields.iter().find(|field| field.name == name);
        found.unwrap_or_else(|| panic!("no field {name} in {self:?}"))
    }

    /// Types a value, or takes one of several.
    pub(crate) fn fill(&self, name: &str, value: &str) -> Self {
        let kind = self.field(name).kind.clone();
        let mut filled = self.clone();
        let of_name = filled.fields.iter_mut().filter(|field| field.name == name);
        if ["radio", "option"].contains(&kind.as_str()) {
            let mut found = false;
            for field in of_name {
                field.is_sent = field.is_called(value);
                found |= field.is_sent;
            }
            assert!(found, "{name} cannot be {value} in {self:?}");
        } else {
            assert!(!["hidden", "checkbox", "submit"].contains(&kind.as_str()), "nobody types {name}");
            for field in of_name {
                value.clone_into(&mut field.value);
            }
        }
        filled
    }

    /// Ticks the boxes of a name with these values, and no others.
    pub(crate) fn tick(&self, name: &str, values: &[&str]) -> Self {
        let mut ticked = self.clone();
        for field in ticked.fields.iter_mut().filter(|field| field.name == name && field.kind == "checkbox") {
            field.is_sent = values.iter().any(|value| field.is_called(value));
        }
        let count = ticked.fields.iter().filter(|field| field.name == name && field.is_sent).count();
        assert_eq!(count, values.len(), "{name} cannot be {values:?} in {self:?}");
        ticked
    }

    /// What is sent.
    pub(crate) fn body(&self) -> String {
        let sent = self.fields.iter().filter(|field| field.is_sent && !field.name.is_empty());
        encode(sent.map(|field| (field.name.as_str(), field.value.as_str())))
    }
}

/// Fields as a form sends them.
pub(super) fn encode<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    Serializer::new(String::new()).extend_pairs(fields).finish()
}
