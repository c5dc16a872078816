//! Lines that are too large for their entry, by position.

/// A list with holes that are filled again.
#[derive(Default)]
#[repr(C)]
pub(super) struct Slab<L> {
    lines: Vec<L>,
    holes: Vec<u32>,
}

impl<L: Default> Slab<L> {
    /// The bound on the lines of a shard keeps positions far below 2^32.
    pub(super) fn insert(&mut self, line: L) -> u32 {
        if let Some(hole) = self.holes.pop()
            && let Some(place) = self.lines.get_mut(hole as usize)
        {
            *place = line;
            return hole;
        }
        self.lines.push(line);
        u32::try_from(self.lines.len() - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn get(&self, position: u32) -> Option<&L> {
        self.lines.get(position as usize)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, position: u32) -> Option<&mut L> {
        self.lines.get_mut(position as usize)
    }

    /// Forgets a line; an empty slab gives its memory back.
    pub(super) fn remove(&mut self, position: u32) {
        if let Some(line) = self.lines.get_mut(position as usize) {
            *line = L::default();
            self.holes.push(position);
        }
        if self.holes.len() == self.lines.len() {
            *self = Self::default();
        }
    }
}
