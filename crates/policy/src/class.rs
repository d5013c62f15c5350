//! The classes of tasks.

use crate::words::words;

words! {
    /// The task classes, highest first, as the scheduler numbers them.
    pub enum Class {
        /// Somebody waits for it.
        Critical = "critical",
        /// Everything that no rule names.
        Normal = "normal",
        /// Worth doing only with what is left over.
        Batch = "batch",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intf;

    #[test]
    fn the_numbers_are_those_of_the_scheduler() {
        let numbers = Class::ALL.map(|class| class as u32);
        let (critical, normal, batch) = (
            intf::task_class_CLASS_CRITICAL,
            intf::task_class_CLASS_NORMAL,
            intf::task_class_CLASS_BATCH,
        );
        assert_eq!(numbers, [critical, normal, batch]);
        assert_eq!(Class::ALL.len() as u32, intf::task_class_NR_CLASSES);
    }
}
