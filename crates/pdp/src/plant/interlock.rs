//! Interlocks as they are written, checked.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{ArgumentBounds, Bounds, Interlock, TwoPersons};
use toml::Spanned;

use super::Role;
use super::file::{self, Number};
use super::resolve::{Check, Known};
use super::words;

/// The longest that a question may wait for its answer: nobody remembers on the next day what it was about.
const LONGEST: Duration = Duration::from_secs(86_400);
/// The most arguments that a call may have.
const ARGUMENTS: u32 = 64;

impl Check<'_> {
    pub(super) fn scope_interlock(&mut self, scope: &file::Scope, roles: &BTreeMap<String, Role>) -> Interlock {
        Interlock {
            bounds: self.bounds(scope.range.as_ref(), scope.step.as_ref(), scope.rate.as_ref()),
            arguments: BTreeMap::new(),
            two_persons: scope.approval.as_ref().map(|approval| self.two_persons(approval, roles)),
        }
    }

    pub(super) fn method_interlock(&mut self, method: &file::Method, roles: &BTreeMap<String, Role>) -> Interlock {
        let mut arguments = BTreeMap::new();
        for argument in &method.arguments {
            let at = argument.get_ref().position;
            let bounds = self.argument(argument);
            if !(1..=ARGUMENTS).contains(&at) {
                self.faults.add(argument.span(), format!("there is no argument {at}"), Some("the first is 1".into()));
            } else if arguments.insert(at, bounds).is_some() {
                self.faults.add(argument.span(), format!("argument {at} is bounded twice"), None);
            }
        }
        let two_persons = method.approval.as_ref().map(|approval| self.two_persons(approval, roles));
        Interlock { bounds: Bounds::default(), arguments, two_persons }
    }

    fn argument(&mut self, argument: &Spanned<file::Argument>) -> ArgumentBounds {
        let file::Argument { range, step, rate, of, position } = argument.get_ref();
        let bounds = self.bounds(range.as_ref(), step.as_ref(), rate.as_ref());
        let of = of.as_ref().and_then(|text| self.word(text.span(), words::node_id(text.get_ref())));
        if bounds.need_present() && of.is_none() {
            let message = format!("nothing says against what `step` and `rate` of argument {position} are taken");
            self.faults.add(argument.span(), message, Some("name the variable that it sets with `of`".into()));
        }
        ArgumentBounds { bounds, of }
    }

    fn bounds(
        &mut self,
        range: Option<&Spanned<file::Range>>,
        step: Option<&Spanned<Number>>,
        rate: Option<&Spanned<Number>>,
    ) -> Bounds {
        let range = range.and_then(|range| self.range(range));
        let step = step.and_then(|step| self.positive("step", step));
        let rate = rate.and_then(|rate| self.positive("rate", rate));
        Bounds { range, step, rate }
    }

    fn range(&mut self, range: &Spanned<file::Range>) -> Option<(f64, f64)> {
        let file::Range { low: Number(low), high: Number(high) } = *range.get_ref();
        if low.is_finite() && high.is_finite() && low <= high {
            return Some((low, high));
        }
        let hint = Some("write the lower value first".into());
        self.faults.add(range.span(), format!("{low} to {high} is no range"), hint);
        None
    }

    fn positive(&mut self, key: &str, number: &Spanned<Number>) -> Option<f64> {
        let Number(value) = *number.get_ref();
        if value.is_finite() && value > 0.0 {
            return Some(value);
        }
        let hint = "to keep a value as it is, grant nobody the right to write it".to_owned();
        self.faults.add(number.span(), format!("`{key}` is more than 0 and not {value}"), Some(hint));
        None
    }

    fn two_persons(&mut self, approval: &file::Approval, roles: &BTreeMap<String, Role>) -> TwoPersons {
        let known: Known<'_> = roles.keys().map(String::as_str).collect();
        let role = self.known("role", &approval.role, &known);
        if roles.get(&role).is_some_and(|role| role.break_glass.is_some()) {
            let message = format!("`{role}` is a break-glass role, which nobody has while somebody else asks");
            self.faults.add(approval.role.span(), message, None);
        }
        let within = self.duration(&approval.within);
        if within > LONGEST {
            self.faults.add(approval.within.span(), "an approval waits for a day at most", None);
        }
        TwoPersons { role, within }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Plant;
    use super::*;

    const HEAD: &str = "[plant]\nname = \"p\"\n[[site]]\nname = \"s\"\n[[zone]]\nname = \"z\"\nsite = \"s\"\n\
        [[equipment]]\nname = \"e\"\nzone = \"z\"\n[[role]]\nname = \"lead\"\n\
        [[role]]\nname = \"rescue\"\nbreak_glass = \"1h\"\n\
        [[server]]\nname = \"m\"\nuri = \"urn:m\"\nequipment = \"e\"\n";

    fn parsed(kind: &str, lines: &str) -> Result<Interlock, String> {
        let text = format!("{HEAD}[[server.{kind}]]\nname = \"a\"\nnodes = [\"i=1\"]\n{lines}\n");
        let plant = Plant::parse(&text).map_err(|faults| faults.to_string())?;
        Ok(plant.server("m").unwrap().1.scopes[0].interlock.clone())
    }

    #[test]
    fn what_is_written_is_what_holds() {
        let written =
            "range = { low = 0, high = 9.5 }\nstep = 2\nrate = 0.5\napproval = { role = \"lead\", within = \"10m\" }";
        let two_persons = Some(TwoPersons { role: "lead".into(), within: Duration::from_secs(600) });
        let bounds = Bounds { range: Some((0.0, 9.5)), step: Some(2.0), rate: Some(0.5) };
        let expected = Interlock { bounds, arguments: BTreeMap::new(), two_persons };
        assert_eq!(parsed("scope", written), Ok(expected));
        let arguments = "arguments = [{ position = 2, range = { low = 0.0, high = 1.0 } }, \
                         { position = 1, step = 3.0, of = \"nsu=urn:m;s=Speed\" }]";
        let interlock = parsed("method", arguments).unwrap();
        assert_eq!(interlock.arguments.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(interlock.arguments[&1].of.as_deref(), Some("nsu=urn:m;s=Speed"));
        assert_eq!(parsed("scope", "labels = [\"x\"]"), Ok(Interlock::default()));
    }

    #[test]
    fn what_cannot_hold_is_refused_with_its_cause() {
        let cases = [
            ("scope", "range = { low = 2.0, high = 1.0 }", "2 to 1 is no range"),
            ("scope", "range = { low = 0, high = inf }", "is no range"),
            ("scope", "range = { low = 0, high = 9007199254740993 }", "cannot be kept exactly"),
            ("scope", "step = 0", "`step` is more than 0"),
            ("scope", "step = nan", "`step` is more than 0"),
            ("scope", "rate = -1.0", "`rate` is more than 0"),
            ("scope", "approval = { role = \"nobody\", within = \"10m\" }", "no role is called `nobody`"),
            ("scope", "approval = { role = \"rescue\", within = \"10m\" }", "break-glass role"),
            ("scope", "approval = { role = \"lead\", within = \"2d\" }", "a day at most"),
            ("scope", "approval = { role = \"lead\" }", "within"),
            ("method", "step = 1.0", "step"),
            ("method", "arguments = [{ position = 0 }]", "there is no argument 0"),
            ("method", "arguments = [{ position = 65 }]", "there is no argument 65"),
            ("method", "arguments = [{ position = 1 }, { position = 1 }]", "bounded twice"),
            ("method", "arguments = [{ position = 1, rate = 1.0 }]", "nothing says against what"),
            ("method", "arguments = [{ position = 1, rate = 1.0, of = \"Speed\" }]", "is no NodeId"),
        ];
        for (kind, line, expected) in cases {
            let said = parsed(kind, line).unwrap_err();
            assert!(said.contains(expected), "{line}: {said}");
        }
    }

    #[test]
    fn a_method_needs_two_persons_where_its_scope_does() {
        let text = format!(
            "{HEAD}[[server.scope]]\nname = \"a\"\nnodes = [\"i=1\"]\napproval = {{ role = \"lead\", within = \"5m\" }}\n\
             [[server.method]]\nname = \"go\"\nnodes = [\"i=2\"]\nscope = \"a\"\n\
             [[server.method]]\nname = \"stop\"\nnodes = [\"i=3\"]\n"
        );
        let plant = Plant::parse(&text).unwrap();
        let scopes = &plant.server("m").unwrap().1.scopes;
        let needed: Vec<bool> = scopes.iter().map(|scope| scope.interlock.two_persons.is_some()).collect();
        assert_eq!(needed, [true, true, false]);
        assert_eq!(plant.server("m").unwrap().1.interlocks().len(), 2);
    }
}
