//! Events in the order in which they are to be taken.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use super::Event;

/// Events that have arrived. Newer facts take the place of those that nobody has looked at yet, so a slow pass leaves
/// no heap of old ones behind it; and whoever stops the daemon waits for nobody.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    arrived: VecDeque<Event>,
}

impl Inbox {
    /// The next event; waits for one. `None`: nobody can send any more.
    pub(super) fn next(&mut self, events: &Receiver<Event>) -> Option<Event> {
        if self.arrived.is_empty() {
            self.add(events.recv().ok()?);
        }
        while let Ok(event) = events.try_recv() {
            self.add(event);
        }
        self.arrived.pop_front()
    }

    fn add(&mut self, event: Event) {
        match event {
            Event::Stop | Event::Lost(_) => self.arrived.push_front(event),
            Event::Facts(_) => match self.arrived.iter_mut().find(|old| matches!(old, Event::Facts(_))) {
                Some(old) => *old = event,
                None => self.arrived.push_back(event),
            },
            Event::StandBy(_)
            | Event::Accounting(_)
            | Event::Query(..)
            | Event::Acted(_)
            | Event::ChangeRefused(_)
            | Event::Entered(_) => self.arrived.push_back(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::accounting::AccountingFound;
    use crate::facts::Facts;

    fn facts(as_of_s: i64) -> Event {
        Event::Facts(Box::new(Facts { as_of_s, ..Facts::default() }))
    }

    fn taken(sent: Vec<Event>) -> Vec<String> {
        let (sender, events) = channel();
        for event in sent {
            sender.send(event).expect("has a receiver");
        }
        drop(sender);
        let mut inbox = Inbox::default();
        let name = |event| match event {
            Event::Facts(facts) => facts.as_of_s.to_string(),
            Event::StandBy(why) => why.to_string(),
            Event::Accounting(_) => "accounting".into(),
            Event::Query(..) => "query".into(),
            Event::Acted(_) => "acted".into(),
            Event::ChangeRefused(_) => "refused".into(),
            Event::Entered(_) => "entered".into(),
            Event::Lost(thread) => thread.into(),
            Event::Stop => "stop".into(),
        };
        std::iter::from_fn(|| inbox.next(&events)).map(name).collect()
    }

    #[test]
    fn only_the_newest_facts_are_taken_and_in_the_place_of_the_oldest() {
        let accounting = || Event::Accounting(AccountingFound::default());
        assert_eq!(taken(vec![facts(1), accounting(), facts(2), facts(3)]), ["3", "accounting"]);
        assert_eq!(taken(vec![accounting(), facts(1)]), ["accounting", "1"]);
    }

    #[test]
    fn whoever_stops_the_daemon_waits_for_nobody() {
        assert_eq!(taken(vec![facts(1), Event::Stop])[0], "stop");
        assert_eq!(taken(vec![facts(1), Event::Lost("slurmctld")])[0], "slurmctld");
    }
}
