//! Bounds on the lists and maps that a template builds, put into its source before it is compiled.
//!
//! The engine's fuel covers instructions, strings and flat lists. It does not see that ten lists inside one another,
//! each naming the next one twice, print as a thousand items and forty as a million million, nor that a list in a
//! list in a list is dropped and printed by recursion. So each place where a template can put one container inside
//! another passes its value through a filter that measures it ([`super::measure`]):
//!
//! - list, map and tuple literals with variables in them: `[a, b]` becomes `([a, b]|held)`;
//! - `{% set %}`, whose values outlive a loop: `{% set x = e %}` becomes `{% set x = (e)|held %}`;
//! - `map(…)`, which can replace each of many items by one large one.
//!
//! Repetition of lists is refused: both sides of `*` pass through a filter that lets only numbers and strings by.
//!
//! The same pass handles the marks `{% generation %}` and `{% endgeneration %}`, with which templates used in training
//! enclose the model's own words: they add nothing to the text and become a condition that always holds.

use super::tag::{Kind, Token, first_word, tokens};

/// The measuring filter for values in general.
pub(super) const HELD: &str = "held";
/// The measuring filter for values assigned to a namespace, which must not come to hold itself.
pub(super) const HELD_INSIDE: &str = "held_inside";
/// The filter for factors, which must be numbers or strings.
pub(super) const FACTOR: &str = "factor";

/// Additions and concatenations in one expression. Real templates have a dozen.
const MAX_SUMS: usize = 256;

/// Words that an expression can follow.
const OPERATOR_WORDS: [&str; 12] =
    ["in", "not", "and", "or", "if", "elif", "else", "is", "for", "set", "do", "call"];
/// Words that are values of their own, so that a literal of them alone is a constant.
const CONSTANT_WORDS: [&str; 6] = ["true", "false", "none", "True", "False", "None"];

/// What a template does that no bound covers: where in the source, and what.
pub(super) struct Unbounded {
    pub(super) line: usize,
    pub(super) detail: &'static str,
}

/// The source with all bounds in place. Lines keep their numbers.
pub(super) fn guarded(source: &str) -> Result<String, Unbounded> {
    let mut out = String::with_capacity(source.len() + source.len() / 8);
    let mut rest = source;
    let mut raw = false;
    while let Some(open) = rest.find('{') {
        let (before, tag) = rest.split_at(open);
        out.push_str(before);
        let (length, rewritten) = match tag.as_bytes().get(1) {
            Some(b'#') if !raw => (tag.find("#}").map_or(tag.len(), |end| end + 2), None),
            Some(b'{') if !raw => rewrite_tag(tag, b"}}"),
            Some(b'%') if raw => {
                raw = first_word(tag) != "endraw";
                (2, None)
            }
            Some(b'%') => {
                raw = first_word(tag) == "raw";
                rewrite_tag(tag, b"%}")
            }
            _ => (1, None),
        };
        match rewritten {
            Some(Ok(text)) => out.push_str(&text),
            Some(Err(detail)) => {
                let line = 1 + source[..source.len() - tag.len()].matches('\n').count();
                return Err(Unbounded { line, detail });
            }
            None => out.push_str(&tag[..length]),
        }
        rest = &tag[length..];
    }
    out.push_str(rest);
    Ok(out)
}

/// A bracket that is open while a tag is read.
struct Bracket {
    start: usize,
    /// A container rather than an index, a call or a group; groups turn out to be tuples at their first comma.
    literal: bool,
    group: bool,
    variable: bool,
    /// The arguments of `map`.
    of_map: bool,
}

/// The rewritten tag that starts `source`, with its length in the source.
fn rewrite_tag(source: &str, close: &[u8; 2]) -> (usize, Option<Result<String, &'static str>>) {
    let Some((tokens, length)) = tokens(source, close) else { return (source.len(), None) };
    let edits = match tokens.as_slice() {
        [mark] if close == b"%}" && mark.is("generation") => Ok(vec![(mark.start, mark.end(), "if true")]),
        [mark] if close == b"%}" && mark.is("endgeneration") => Ok(vec![(mark.start, mark.end(), "endif")]),
        tokens => edits(tokens),
    };
    let edits = match edits {
        Ok(edits) if edits.is_empty() => return (length, None),
        Ok(edits) => edits,
        Err(detail) => return (length, Some(Err(detail))),
    };
    let mut out = String::with_capacity(length + 64);
    let mut done = 0;
    for (from, to, text) in edits {
        out.push_str(&source[done..from]);
        out.push_str(text);
        done = to;
    }
    out.push_str(&source[done..length]);
    (length, Some(Ok(out)))
}

/// What to replace in a tag of these tokens, in order: from, to, and by what.
fn edits(tokens: &[Token<'_>]) -> Result<Vec<(usize, usize, &'static str)>, &'static str> {
    let mut out = Vec::new();
    let mut insert = |at: usize, text: &'static str| out.push((at, at, text));
    let mut open: Vec<Bracket> = Vec::new();
    let mut sums = 0;
    let is_set = tokens.first().is_some_and(|first| first.is("set"));
    let mut assigned = false;
    let mut to_attribute = false;
    for (index, token) in tokens.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|i| tokens.get(i));
        let before_that = index.checked_sub(2).and_then(|i| tokens.get(i));
        let is_name = |t: &Token<'_>| t.kind == Kind::Word && !OPERATOR_WORDS.contains(&t.text);
        // After a dot any word is a name.
        let follows_value = before.is_some_and(|t| match t.kind {
            Kind::Word => is_name(t) || before_that.is_some_and(|dot| dot.is(".")),
            Kind::Number | Kind::Text | Kind::Close => true,
            Kind::Open | Kind::Operator => false,
        });
        match token.kind {
            Kind::Open => {
                let target = before.is_some_and(|t| t.is("for") || t.is("call")) || (is_set && !assigned);
                let starts_value = !follows_value && !target;
                let of_map = before.is_some_and(|t| t.is("map")) && before_that.is_some_and(|t| t.is("|"));
                let literal = starts_value && token.text != "(";
                let group = starts_value && token.text == "(";
                open.push(Bracket { start: token.start, literal, group, variable: false, of_map });
            }
            Kind::Close => {
                let Some(bracket) = open.pop() else { continue };
                if bracket.literal && bracket.variable {
                    insert(bracket.start, "(");
                    insert(token.end(), "|held)");
                }
                if bracket.of_map {
                    insert(token.end(), "|held");
                }
                if let Some(outer) = open.last_mut() {
                    outer.variable |= bracket.variable;
                }
            }
            Kind::Word if !CONSTANT_WORDS.contains(&token.text) => {
                if let Some(bracket) = open.last_mut() {
                    bracket.variable = true;
                }
            }
            Kind::Operator if token.is(",") => {
                if let Some(bracket) = open.last_mut() {
                    bracket.literal |= bracket.group;
                }
            }
            Kind::Operator if token.is("+") || token.is("~") => {
                sums += 1;
                if sums > MAX_SUMS {
                    return Err("one expression has more than 256 sums");
                }
            }
            Kind::Operator if token.is("*") && follows_value => {
                if let Some(left) = before.filter(|t| !matches!(t.kind, Kind::Number | Kind::Text)) {
                    insert(left.end(), "|factor");
                }
                if let Some(right) = operand_end(tokens, index + 1) {
                    insert(right, "|factor");
                }
            }
            Kind::Operator if token.is("=") && is_set && !assigned && open.is_empty() => {
                assigned = true;
                to_attribute = tokens[..index].iter().any(|t| t.is("."));
                insert(token.end(), "(");
            }
            _ => {}
        }
    }
    if assigned && let Some(last) = tokens.last() {
        insert(last.end(), if to_attribute { ")|held_inside" } else { ")|held" });
    }
    // Edits at one place keep the order in which they were found: inner brackets close before outer ones.
    out.sort_by_key(|(from, _, _)| *from);
    Ok(out)
}

/// Where the operand that starts at token `at` ends, with its attributes, indices, calls and filters; `None` for a
/// plain number or string.
fn operand_end(tokens: &[Token<'_>], mut at: usize) -> Option<usize> {
    while tokens.get(at).is_some_and(|t| t.is("-") || t.is("+")) {
        at += 1;
    }
    let first = tokens.get(at)?;
    let mut last = at;
    let mut depth = usize::from(first.kind == Kind::Open);
    for (index, token) in tokens.iter().enumerate().skip(at + 1) {
        let connects = |t: &Token<'_>| t.is(".") || t.is("|");
        match token.kind {
            Kind::Open => depth += 1,
            // The end of what the whole product stands in.
            Kind::Close if depth == 0 => break,
            Kind::Close => depth -= 1,
            _ if depth > 0 || connects(token) || tokens.get(index - 1).is_some_and(connects) => {}
            _ => break,
        }
        last = index;
    }
    let plain = last == at && matches!(first.kind, Kind::Number | Kind::Text);
    tokens.get(last).filter(|_| !plain).map(Token::end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        assert_eq!(guarded(source).map_err(|e| e.detail), Ok(expected.to_owned()));
    }

    #[track_caller]
    fn unchanged(source: &str) {
        check(source, source);
    }

    #[test]
    fn literals_with_variables_are_held() {
        check("{{ [a, 1] }}", "{{ ([a, 1]|held) }}");
        check("{{- [{'r': x}] + ms -}}", "{{- ([({'r': x}|held)]|held) + ms -}}");
        check("{% for t in [a] %}", "{% for t in ([a]|held) %}");
        check("{{ f((a, b)) }}{{ (a) }}", "{{ f(((a, b)|held)) }}{{ (a) }}");
        check("{{ x if y else [x] }}", "{{ x if y else ([x]|held) }}");
        check("{{ xs | map(attribute='a') | join }}", "{{ xs | map(attribute='a')|held | join }}");
    }

    #[test]
    fn assignments_are_held() {
        check("{% set x = y %}", "{% set x =( y)|held %}");
        check("{%- set ns.x = ns.x + [m] -%}", "{%- set ns.x =( ns.x + ([m]|held))|held_inside -%}");
        check("{% set a, b = (c, d) %}", "{% set a, b =( ((c, d)|held))|held %}");
        check("{% set x = [y] %}", "{% set x =( ([y]|held))|held %}");
        unchanged("{% set x %}text{% endset %}");
        unchanged("{% set x | f(a=1) %}text{% endset %}");
    }

    #[test]
    fn what_holds_nothing_is_left_alone() {
        unchanged(
            "{{ a[0] }}{{ a['b'][-1:] }}{{ f(a, b) }}{{ a.in[x] }}{{ a[b][c] }}{{ f()[x] }}{{ 'x'[y] }}",
        );
        unchanged("{% if x in ['a', \"b\"] and y not in (1, 2.5, none) %}");
        unchanged("{% for (k, v) in x.items() %}{{ {} }}{{ [] }}{% macro f(a, b) %}{% call(a, b) f(1) %}");
        unchanged("{# [a] {% set x = [b] #}text { [c] } {");
        unchanged("{% raw %}{{ [a] }}{% set x = [b] %}{% endraw %}");
        unchanged("{{ '[a, b] }} \\' {% set x = 1 %}' }}{{ \"}}\" }}");
        unchanged("{{ 'é' ~ naïve }}{{ unfinished [a]");
        check("{{ {'a': {'b': {}}}[x] }}{{ [z] }}", "{{ {'a': {'b': {}}}[x] }}{{ ([z]|held) }}");
    }

    #[test]
    fn factors_are_checked() {
        check("{{ n * 2 + 1 }}", "{{ n|factor * 2 + 1 }}");
        check("{{ '-' * n }}{{ n * ' ' }}", "{{ '-' * n|factor }}{{ n|factor * ' ' }}");
        check("{{ f(2 * x.y[z](w) | g(1), 3) }}", "{{ f(2 * x.y[z](w) | g(1)|factor, 3) }}");
        check("{{ (a + b) * -c * d }}", "{{ (a + b)|factor * -c|factor|factor * d|factor }}");
        check("{{ [a] * 2 }}{{ 2 * [a] }}", "{{ ([a]|held)|factor * 2 }}{{ 2 * ([a]|factor|held) }}");
        unchanged("{{ 2 ** n }}{{ f(*a) }}{{ 2 * 3 }}");
    }

    #[test]
    fn sums_have_an_end() {
        let refused = guarded(&format!("\n{{{{ x{} }}}}", " + x".repeat(300))).err();
        assert_eq!(refused.map(|e| e.line), Some(2));
    }

    #[test]
    fn generation_marks_become_conditions_that_hold() {
        check("a{% generation %}b{% endgeneration %}c", "a{% if true %}b{% endif %}c");
        check("{%- generation -%}\n{%-endgeneration-%}", "{%- if true -%}\n{%-endif-%}");
        unchanged("{% if generation %}{{ generation }}{% generations %}");
    }
}
