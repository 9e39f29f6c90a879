//! Slurm's linked lists: reading those that it gives, building those that it wants.

use std::ffi::{CString, c_char, c_void};
use std::marker::PhantomData;

use slurm_sys as sys;

use crate::ffi;
use crate::text::text;

/// A list that libslurm allocated for us, destroyed together with its items.
#[derive(Debug)]
pub(crate) struct OwnedList<T> {
    list: *mut sys::xlist,
    items: PhantomData<T>,
}

impl<T> OwnedList<T> {
    /// Takes over `list`; `None` for NULL.
    ///
    /// # Safety
    /// `list` is NULL or a list of pointers to valid `T` that nobody else frees.
    pub(crate) unsafe fn new(list: *mut sys::xlist) -> Option<Self> {
        (!list.is_null()).then(|| Self { list, items: PhantomData })
    }

    pub(crate) fn iter(&self) -> Items<'_, T> {
        // SAFETY: `new` promised a valid list of `T`, and it lives as long as `self`.
        unsafe { items(self.list) }
    }

    pub(crate) fn len(&self) -> usize {
        // SAFETY: a valid list.
        usize::try_from(unsafe { ffi::slurm_list_count(self.list) }).unwrap_or(0)
    }
}

impl<T> Drop for OwnedList<T> {
    fn drop(&mut self) {
        // SAFETY: owned, and destroyed once.
        unsafe { ffi::slurm_list_destroy(self.list) };
    }
}

/// Goes through a list; NULL reads as empty.
///
/// # Safety
/// `list` is NULL or a list of pointers to valid `T`, and stays so for `'a`.
pub(crate) unsafe fn items<'a, T>(list: *mut sys::xlist) -> Items<'a, T> {
    let iterator = if list.is_null() {
        std::ptr::null_mut()
    } else {
        // SAFETY: a valid list.
        unsafe { ffi::slurm_list_iterator_create(list) }.cast()
    };
    Items { iterator, items: PhantomData }
}

/// The items of a list, in its order.
#[derive(Debug)]
pub(crate) struct Items<'a, T> {
    /// The type behind it has another name in each release.
    iterator: *mut c_void,
    items: PhantomData<&'a T>,
}

impl<'a, T> Iterator for Items<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        // SAFETY: `items` promised pointers to valid `T` for `'a`; NULL ends the list.
        unsafe { self.next_pointer().cast::<T>().as_ref() }
    }
}

impl<T> Items<'_, T> {
    fn next_pointer(&mut self) -> *mut c_void {
        if self.iterator.is_null() {
            return std::ptr::null_mut();
        }
        // SAFETY: a valid iterator of a valid list.
        unsafe { ffi::slurm_list_next(self.iterator.cast()) }
    }
}

/// Copies a list of C strings; NULL reads as empty.
///
/// # Safety
/// `list` is NULL or a list of NUL-terminated strings.
pub(crate) unsafe fn texts_in(list: *mut sys::xlist) -> Vec<String> {
    // SAFETY: pointers only, which are not read as `c_char` references.
    let mut pointers = unsafe { items::<c_char>(list) };
    std::iter::from_fn(|| {
        let pointer = pointers.next_pointer();
        // SAFETY: NULL ends the list; the caller vouches for the strings.
        (!pointer.is_null()).then(|| unsafe { text(pointer.cast()) }.unwrap_or_default())
    })
    .collect()
}

impl<T> Drop for Items<'_, T> {
    fn drop(&mut self) {
        if !self.iterator.is_null() {
            // SAFETY: created by `items`, destroyed once.
            unsafe { ffi::slurm_list_iterator_destroy(self.iterator.cast()) };
        }
    }
}

/// A list for a request: Slurm reads it, the items stay ours.
#[derive(Debug)]
pub(crate) struct RequestList<T> {
    list: *mut sys::xlist,
    _items: Vec<T>,
}

impl RequestList<CString> {
    /// A list of `char *`.
    pub(crate) fn of_texts(texts: Vec<CString>) -> Self {
        let list = new_list(texts.iter().map(|text| text.as_ptr().cast_mut().cast()));
        Self { list, _items: texts }
    }
}

impl<T> RequestList<Box<T>> {
    /// A list of pointers to records; boxed, so that they do not move.
    pub(crate) fn of_records(mut records: Vec<Box<T>>) -> Self {
        let list = new_list(records.iter_mut().map(|record| std::ptr::from_mut(&mut **record).cast()));
        Self { list, _items: records }
    }
}

impl<T> RequestList<T> {
    pub(crate) fn as_ptr(&self) -> *mut sys::xlist {
        self.list
    }
}

impl<T> Drop for RequestList<T> {
    fn drop(&mut self) {
        // SAFETY: created without a destructor for items, so this frees the list alone.
        unsafe { ffi::slurm_list_destroy(self.list) };
    }
}

fn new_list(pointers: impl Iterator<Item = *mut c_void>) -> *mut sys::xlist {
    // SAFETY: no destructor: the list does not free what it points to. libslurm ends the process when
    // memory is short, so it never gives NULL.
    let list = unsafe { ffi::slurm_list_create(None) };
    for pointer in pointers {
        // SAFETY: a valid list, and a pointer that its owner keeps longer.
        unsafe { ffi::slurm_list_append(list, pointer) };
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_list_reads_back_in_order() {
        let names = ["gpu1", "gpu2"].map(|name| CString::new(name).expect("no NUL"));
        let list = RequestList::of_texts(names.to_vec());
        // SAFETY: a list of C strings.
        let read = unsafe { texts_in(list.as_ptr()) };
        assert_eq!(read, ["gpu1", "gpu2"]);
    }

    #[test]
    fn null_list_is_empty() {
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { items::<u32>(std::ptr::null_mut()) }.count(), 0);
        // SAFETY: NULL is allowed.
        assert!(unsafe { OwnedList::<u32>::new(std::ptr::null_mut()) }.is_none());
    }
}
