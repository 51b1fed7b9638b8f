//! A chat template, compiled and rendered on a conversation that has everything templates look for.

use std::time::{Duration, Instant, SystemTime};

use cajeta_model_arch::template::{ChatRender, ChatTemplate, Message};
use serde_json::json;

use crate::Target;

/// This target.
pub const TARGET: Target = Target {
    name: "template",
    run,
    seeds,
    words: &[
        "{% for m in messages %}",
        "{% endfor %}",
        "{{ ",
        " }}",
        "{% set n = namespace(x=[]) %}",
        "{% set n.x = n.x + [n.x] %}",
        "{% if true %}",
        "{% endif %}",
        "{% macro f(a) %}",
        "{% endmacro %}",
        "range(99999)",
        " | tojson(indent=4)",
        " | map('upper')",
        " | list",
        " | join('x')",
        ".replace('', 'xx')",
        "[::-1]",
        "dict(a=messages)",
        " ~ ",
        " * 9999",
        " ** 9",
        "-%}",
        "{%- raw %}",
        "{# ",
        "recursive",
        "loop(messages)",
        "strftime_now('%9999Y')",
        "raise_exception('x')",
        "'%s' % 1",
        " | format(1)",
        " | sort(attribute='role')",
        " is mapping",
        " if a else b",
    ],
    replays: 100_000,
};

/// Longest that a template may take, whatever it says. Its budget of work is far smaller than this.
const LONGEST: Duration = Duration::from_secs(20);

/// Compiles a template and renders it twice; either may be refused, neither may take long.
pub fn run(data: &[u8]) {
    let source = String::from_utf8_lossy(data);
    let started = Instant::now();
    if let Ok(template) = ChatTemplate::new(&source, "<s>", "</s>") {
        let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "x": [1, 2.5]}}}]);
        let mut call = Message::assistant("");
        call.content = serde_json::Value::Null;
        call.more.insert("tool_calls".into(), json!([{"function": {"name": "f", "arguments": {"a": "b"}}}]));
        let mut parts = Message::user("");
        parts.content = json!([{"type": "text", "text": "two"}, {"type": "image"}]);
        let messages =
            [Message::system("be brief"), Message::user("one"), call, Message::new("tool", "3"), parts];
        let chat = ChatRender {
            messages: &messages,
            add_generation_prompt: true,
            tools: Some(&tools),
            now: Some(SystemTime::UNIX_EPOCH),
            ..ChatRender::default()
        };
        let first = template.render(&chat).map_err(|error| error.to_string());
        assert_eq!(first, template.render(&chat).map_err(|error| error.to_string()));
        let _ = template.render(&ChatRender::default());
    }
    let took = started.elapsed();
    assert!(took < LONGEST, "took {took:?}");
}

fn seeds() -> Vec<Vec<u8>> {
    let chatml = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] \
                  + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    let tools = "{{- bos_token }}\n{%- set ns = namespace(found=false, last='') %}\n{%- if tools %}\n    \
                 {{- 'Tools: ' }}\n    {%- for tool in tools %}\n        {{- tool | tojson(indent=4) }}\n    {%- endfor %}\n{%- endif %}\n\
                 {%- for m in messages[1:] %}\n  {%- if m.role == 'tool' and not loop.first %}{% set ns.found = true %}{%- endif %}\n  \
                 {%- if m.content is string %}{{ m.content.strip().split('x')[0] | trim }}{%- elif m.content is iterable %}\
                 {%- for p in m.content %}{{ p['text'] | default('') }}{% endfor %}{%- endif %}\n  \
                 {%- if m.tool_calls is defined %}{{ m.tool_calls[0].function.arguments.items() | list }}{% endif %}\n{%- endfor %}\n\
                 {{- strftime_now('%d %b %Y') }}{% if ns.found %}{{ raise_exception('no ' ~ ns.last) }}{% endif %}";
    let macros = "{% macro f(a, b=1) %}{{ a | upper }}{{ b + 2 * 3 }}{% endmacro %}{{ f('x') }}{% raw %}{{ }}{% endraw %}\
                  {# note #}{% set x = [messages, {'a': (1, 2)}] %}{{ x | length }}{{ messages | map(attribute='role') | join(', ') }}\
                  {% generation %}y{% endgeneration %}{{ 'abc'[::-1] ~ \"%s\" | format('d') }}{{ 7 // 2 % 3 ** 2 }}{% filter upper %}q{% endfilter %}";
    vec![chatml.into(), tools.into(), macros.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_templates() {
        for seed in seeds() {
            ChatTemplate::new(&String::from_utf8(seed).unwrap(), "", "").unwrap();
        }
    }
}
