//! Tiles: the service stores and serves the hashes of the tree in groups of 256 (C2SP `tlog-tiles`).

use std::fmt;

use crate::tree::HASH_BYTES;

/// Number of hashes in a full tile.
pub const TILE_WIDTH: usize = 256;

/// Length of a full tile.
pub const TILE_BYTES: usize = TILE_WIDTH * HASH_BYTES;

/// Highest level of a tile. A tree of 2^63 leaves has no higher one.
const MAX_LEVEL: u8 = 7;

/// The place of a tile. Level 0 has the hashes of leaves. Each hash of a higher level is the root of a full tile below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TileId {
    /// The level.
    pub level: u8,
    /// Its number in the level, from 0.
    pub index: u64,
}

impl TileId {
    /// Number of hashes of this tile in a tree of this size.
    #[must_use]
    pub fn width_at(self, size: u64) -> usize {
        let hashes = size.checked_shr(8 * u32::from(self.level)).unwrap_or_default();
        let before = self.index.saturating_mul(TILE_WIDTH as u64);
        usize::try_from(hashes.saturating_sub(before)).map_or(TILE_WIDTH, |width| width.min(TILE_WIDTH))
    }

    /// Reads the path of a tile, such as `0/x001/x234/067`, or `0/x001/x234/067.p/12` for its first 12 hashes. Returns
    /// the tile and its width. Each tile has one path; other texts give none.
    #[must_use]
    pub fn parse(path: &str) -> Option<(Self, usize)> {
        let (place, width) = match path.split_once(".p/") {
            Some((place, width)) => (place, parse_decimal(width).filter(|width| (1..TILE_WIDTH).contains(width))?),
            None => (path, TILE_WIDTH),
        };
        let mut parts = place.split('/');
        let level = parse_decimal(parts.next()?).filter(|level| *level <= usize::from(MAX_LEVEL))?;
        let mut index = 0_u64;
        let (mut parts, mut has_more) = (parts.peekable(), false);
        while let Some(part) = parts.next() {
            let digits = if parts.peek().is_some() { part.strip_prefix('x')? } else { part };
            if digits.len() != 3 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                return None;
            }
            index = index.checked_mul(1000)?.checked_add(digits.parse().ok()?)?;
            if index == 0 && parts.peek().is_some() {
                // A leading `x000` would give a tile two paths.
                return None;
            }
            has_more = true;
        }
        has_more.then_some((Self { level: u8::try_from(level).ok()?, index }, width))
    }

    /// The path of the tile with its first `width` hashes.
    #[must_use]
    pub fn path(self, width: usize) -> String {
        if width == TILE_WIDTH { self.to_string() } else { format!("{self}.p/{width}") }
    }
}

/// The path of the full tile.
impl fmt::Display for TileId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/", self.level)?;
        let mut parts = vec![format!("{:03}", self.index % 1000)];
        let mut rest = self.index / 1000;
        while rest > 0 {
            parts.push(format!("x{:03}/", rest % 1000));
            rest /= 1000;
        }
        parts.iter().rev().try_for_each(|part| formatter.write_str(part))
    }
}

/// A decimal number without leading zeros.
fn parse_decimal(text: &str) -> Option<usize> {
    let is_decimal = text.bytes().all(|digit| digit.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_decimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_tlog_tiles() {
        let tile = |level, index| TileId { level, index };
        for (path, id, width) in [
            ("0/000", tile(0, 0), 256),
            ("1/999", tile(1, 999), 256),
            ("0/x001/000", tile(0, 1000), 256),
            ("0/x001/x234/067", tile(0, 1_234_067), 256),
            ("2/x001/x234/067.p/1", tile(2, 1_234_067), 1),
            ("7/000.p/255", tile(7, 0), 255),
        ] {
            assert_eq!(TileId::parse(path), Some((id, width)), "{path}");
            assert_eq!(id.path(width), path);
        }
    }

    #[test]
    fn other_paths_are_none() {
        for path in [
            "",
            "0",
            "0/",
            "/000",
            "00/000",
            "8/000",
            "-1/000",
            "+0/000",
            "0/0",
            "0/0000",
            "0/+01",
            "0/x000/001",
            "0/001/002",
            "0/x001",
            "0/000/",
            "0/000.p/",
            "0/000.p/0",
            "0/000.p/01",
            "0/000.p/+1",
            "0/000.p/256",
            "0/000.p/1/1",
            "0/x999/x999/x999/x999/x999/x999/999",
        ] {
            assert_eq!(TileId::parse(path), None, "{path}");
        }
    }

    /// The example of the specification.
    #[test]
    fn a_tree_of_70_000_leaves_has_the_widths_of_the_specification() {
        let width = |level, index| TileId { level, index }.width_at(70_000);
        assert_eq!([width(0, 0), width(0, 272), width(0, 273), width(0, 274)], [256, 256, 112, 0]);
        assert_eq!([width(1, 0), width(1, 1), width(1, 2), width(2, 0), width(2, 1)], [256, 17, 0, 1, 0]);
        assert_eq!([width(3, 0), TileId { level: 1, index: 0 }.width_at(256)], [0, 1]);
    }
}
