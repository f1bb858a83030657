//! Code that verifies the deliveries of a webhook by its secret, in five languages.

/// The code in one language.
pub(super) struct CodeSample {
    /// The name of the language on its tab.
    pub(super) name: &'static str,
    /// Suffix of the id of its tab.
    pub(super) id: &'static str,
    pub(super) text: &'static str,
}

/// The code of each language. The secret comes from the environment, and the libraries are those of Standard Webhooks.
pub(super) const SAMPLES: [CodeSample; 5] = [
    CodeSample { name: "Python", id: "python", text: include_str!("../../../code/verify.py") },
    CodeSample { name: "JavaScript", id: "js", text: include_str!("../../../code/verify.mjs") },
    CodeSample { name: "Go", id: "go", text: include_str!("../../../code/verify.go") },
    CodeSample { name: "Rust", id: "rust", text: include_str!("../../../code/verify.rs") },
    CodeSample { name: "Ruby", id: "ruby", text: include_str!("../../../code/verify.rb") },
];
