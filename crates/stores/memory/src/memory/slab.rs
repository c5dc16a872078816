//! Values by position, with freed positions reused. It holds the accounts that are too large for their entry.

/// A list whose holes are reused.
#[derive(Default)]
#[repr(C)]
pub(super) struct Slab<T> {
    values: Vec<T>,
    holes: Vec<u32>,
}

impl<T: Default> Slab<T> {
    /// The bound on the accounts of a shard keeps positions far below 2^32.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(hole) = self.holes.pop()
            && let Some(place) = self.values.get_mut(hole as usize)
        {
            *place = value;
            return hole;
        }
        self.values.push(value);
        u32::try_from(self.values.len() - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn get(&self, position: u32) -> Option<&T> {
        self.values.get(position as usize)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, position: u32) -> Option<&mut T> {
        self.values.get_mut(position as usize)
    }

    /// Removes a value; an empty slab frees its memory.
    pub(super) fn remove(&mut self, position: u32) {
        if let Some(value) = self.values.get_mut(position as usize) {
            *value = T::default();
            self.holes.push(position);
        }
        if self.holes.len() == self.values.len() {
            *self = Self::default();
        }
    }
}
