//! The paths of the API, and suggestions for similar paths.

use thesis_proto::{
    error::{ApiError, ErrorCode},
    near,
};

use crate::route::Route;

/// Only this many segments of a path are compared.
const MAX_SEGMENTS: usize = 16;

/// The paths of all routes. A path with several methods occurs several times.
pub(crate) struct RoutePaths(Vec<&'static str>);

impl RoutePaths {
    pub(crate) fn new(routes: &[Route]) -> Self {
        Self(routes.iter().map(|route| route.path).collect())
    }

    /// The error for an unknown path.
    pub(crate) fn not_found(&self, given: &str) -> ApiError {
        let text = match self.nearest(given).or_else(|| self.ending_alike(given)) {
            Some(path) => format!("there is nothing under this path; did you mean {path}?"),
            None => "there is nothing under this path; GET /v1/openapi.json lists every path".to_owned(),
        };
        ApiError::new(ErrorCode::RouteNotFound, text)
    }

    /// The path with the fewest slips, if each segment is similar. A parameter matches any text. Empty segments do not
    /// count, and the version may be missing.
    fn nearest(&self, given: &str) -> Option<&'static str> {
        let given = segments(given);
        let slips = |path: &str| {
            let known = segments(path);
            // A missing version counts as one slip.
            let without = known.get(1..).filter(|rest| !rest.is_empty() && rest.len() == given.len());
            let whole = (known.len() == given.len()).then(|| sum_slips(&given, &known)).flatten();
            whole.or_else(|| without.and_then(|rest| Some(sum_slips(&given, rest)? + 1)))
        };
        let near = self.0.iter().filter_map(|path| Some((slips(path)?, *path)));
        near.min_by_key(|(slips, _)| *slips).map(|(_, path)| path)
    }

    /// The path with the fewest additional segments whose last segment contains the given one, or the reverse. The
    /// other given segments must occur before it in their order.
    fn ending_alike(&self, given: &str) -> Option<&'static str> {
        let given = segments(given);
        let (last, before) = given.split_last()?;
        let more = |path: &str| {
            let known = segments(path);
            let (end, mut rest) = known.split_last().map(|(end, rest)| (*end, rest.iter()))?;
            let has = |given: &&str| rest.any(|known| known.starts_with('{') || near::slips(given, known).is_some());
            (is_part(last, end) && before.iter().all(has)).then(|| known.len() - given.len())
        };
        let near = self.0.iter().filter_map(|path| Some((more(path)?, *path)));
        near.min_by_key(|(more, _)| *more).map(|(_, path)| path)
    }
}

/// The first non-empty segments of a path.
fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty()).take(MAX_SEGMENTS).collect()
}

/// True if one segment is similar to the other, or is one of its words, such as `rotate` of `rotate-secret`.
fn is_part(given: &str, known: &str) -> bool {
    let has = |whole: &str, part: &str| whole.split(['-', '_', '.']).any(|word| word.eq_ignore_ascii_case(part));
    !known.starts_with('{') && (near::slips(given, known).is_some() || has(known, given) || has(given, known))
}

/// The sum of slips of all segments; none if a segment is not similar. A word is a better match than a parameter.
fn sum_slips(given: &[&str], known: &[&str]) -> Option<usize> {
    let slips = |(given, known): (&&str, &&str)| {
        let is_parameter = known.starts_with('{');
        if is_parameter { Some(1) } else { near::slips(given, known).map(|slips| 2 * slips) }
    };
    given.iter().zip(known).map(slips).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;

    #[test]
    fn a_similar_path_is_suggested() {
        let paths = RoutePaths::new(&v1::routes());
        for (given, meant) in [
            ("/v1/thesis", "/v1/theses"),
            ("/v1/theses/", "/v1/theses"),
            ("/V1/Theses", "/v1/theses"),
            ("//v1//theses", "/v1/theses"),
            ("/theses", "/v1/theses"),
            ("/v1/thesis/th_1", "/v1/theses/{id}"),
            ("/v1/theses/th_1/", "/v1/theses/{id}"),
            ("/v1/profile/ana", "/v1/profiles/{ref}"),
            ("/v1/webhook", "/v1/webhooks"),
            ("/v1/webhooks/wh_1/delivreies", "/v1/webhooks/{id}/deliveries"),
        ] {
            assert_eq!(paths.nearest(given), Some(meant), "{given}");
        }
        for other in
            ["/v1/nothing", "/", "/v2/theses", "/v1/theses/th_1/a/b/c", &"/x".repeat(9_999), &"x".repeat(9_999)]
        {
            assert_eq!(paths.nearest(other), None, "{other}");
        }
        for (given, meant) in [
            ("/v1/usage", "/v1/me/usage"),
            ("/v1/tokens/RUN/velocity", "/v1/tokens/{ref}/thesis-velocity"),
            ("/v1/webhooks/x/rotate", "/v1/webhooks/{id}/rotate-secret"),
            ("/v1/webhooks/x/Secret", "/v1/webhooks/{id}/rotate-secret"),
            ("/v1/deliveries", "/v1/webhooks/{id}/deliveries"),
            ("/v1/wallets", "/v1/profiles/{ref}/wallets"),
            ("/openapi", "/v1/openapi.json"),
        ] {
            assert!(paths.not_found(given).message.ends_with(&format!("; did you mean {meant}?")), "{given}");
        }
        for other in ["/", "/v1/nothing", "/v2/usage", "/v1/theses/usage", "/v1/webhooks/x/y/rotate", "/-", "/v1/{id}"]
        {
            assert_eq!(paths.ending_alike(other), None, "{other}");
        }
        let error = paths.not_found("/v1/thesis");
        assert_eq!(error.message, "there is nothing under this path; did you mean /v1/theses?");
        assert!(paths.not_found("/nothing").message.ends_with("GET /v1/openapi.json lists every path"));
    }
}
