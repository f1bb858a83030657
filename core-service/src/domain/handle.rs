//! The shown form of handles and symbols, and the characters that a test may use in them.

/// Adds the leading `@` to a handle, and keeps its spelling.
pub fn with_at(handle: &str) -> String {
    format!("@{}", handle.strip_prefix('@').unwrap_or(handle))
}

/// Adds the leading `$` to a symbol, and keeps its spelling.
pub fn with_dollar(symbol: &str) -> String {
    let symbol = symbol.trim();
    format!("${}", symbol.strip_prefix('$').unwrap_or(symbol))
}

/// True if a test may bring this handle: letters, digits, `_`, `.`, `-`, ASCII, after an optional `@`.
pub fn is_test_handle(handle: &str) -> bool {
    let name = handle.strip_prefix('@').unwrap_or(handle);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// True if a test may bring this symbol: letters and digits of any script, `_`, `.`, `-`, after an optional `$`.
pub fn is_test_symbol(text: &str) -> bool {
    let name = text.strip_prefix('$').unwrap_or(text);
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        assert_eq!(with_at("Runner"), "@Runner");
        assert_eq!(with_at("@Runner"), "@Runner");
        for (given, shown) in [("stETH", "$stETH"), ("$stETH", "$stETH"), (" two words ", "$two words"), ("$$X", "$$X")]
        {
            assert_eq!(with_dollar(given), shown);
        }
    }

    #[test]
    fn test_names() {
        assert!(is_test_handle("@a.b-c_1") && is_test_symbol("$РУНА-2"));
        assert!(!is_test_handle("@") && !is_test_handle("ünder") && !is_test_handle("a b") && !is_test_handle("@@a"));
        assert!(!is_test_symbol("$") && !is_test_symbol("a b") && !is_test_symbol("🚀"));
    }
}
