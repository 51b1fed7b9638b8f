//! Templates in the style of the common families, the Python habits they rely on, and hostile ones.

use super::*;
use serde_json::json;
use std::time::{Duration, Instant};

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, "<s>", "</s>").unwrap()
}

fn talk() -> Vec<Message> {
    vec![
        Message::system(" Be brief. "),
        Message::user("Hi\n"),
        Message::assistant("Hello."),
        Message::user("Bye"),
    ]
}

fn prompt(source: &str, messages: &[Message]) -> Result<String, TemplateError> {
    template(source).render(&ChatRender { messages, add_generation_prompt: true, ..ChatRender::default() })
}

#[track_caller]
fn check(source: &str, expected: &str) {
    assert_eq!(prompt(source, &talk()).unwrap(), expected);
}

const CHATML: &str = "\
{% for message in messages %}
    {% if loop.first and message['role'] != 'system' %}
        {{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
    {% endif %}
    {{ '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}
    {{ '<|im_start|>assistant\\n' }}
{% endif %}
";

#[test]
fn chatml() {
    let compact = CHATML.replace("    {{", "    {{-").replace("}}\n", "-}}\n");
    check(
        &compact,
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n\
         <|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
    );
    let without_system = prompt(&compact, &[Message::user("x")]).unwrap();
    assert!(
        without_system.starts_with("<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nx<|im_end|>")
    );
}

/// Blocks swallow their line's indent and newline; the text lines between them stay.
#[test]
fn blocks_leave_no_blank_lines() {
    check(
        "{% for m in messages %}\n  {% if m.role == 'user' %}\nU: {{ m.content | trim }}\n  {% endif %}\n{% endfor %}\n",
        "U: Hi\nU: Bye\n",
    );
}

const LLAMA3: &str = "\
{{- bos_token }}
{%- if not date_string is defined %}{%- set date_string = strftime_now('%d %b %Y') %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set intro = messages[0]['content'].strip() %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set intro = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nDate: ' ~ date_string ~ '\\n' ~ intro ~ '<|eot_id|>' }}
{%- if tools is not none %}{{- 'Tools: ' + tools | tojson(indent=2) }}{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif message.tool_calls | length != 1 %}
        {{- raise_exception('one call at a time, please') }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
";

#[test]
fn llama3() {
    let now = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000));
    let messages = talk();
    let chat = ChatRender { messages: &messages, add_generation_prompt: true, now, ..ChatRender::default() };
    let header = |role| format!("<|start_header_id|>{role}<|end_header_id|>\n\n");
    let expected = format!(
        "<s>{}Date: 30 Nov 2026\nBe brief.<|eot_id|>{}Hi<|eot_id|>{}Hello.<|eot_id|>{}Bye<|eot_id|>{}",
        header("system"),
        header("user"),
        header("assistant"),
        header("user"),
        header("assistant"),
    );
    assert_eq!(template(LLAMA3).render(&chat).unwrap(), expected);

    let tools = json!([{"name": "f", "needs": []}]);
    let with_tools = template(LLAMA3).render(&ChatRender { tools: Some(&tools), ..chat }).unwrap();
    assert!(
        with_tools.contains("Tools: [\n  {\n    \"name\": \"f\",\n    \"needs\": []\n  }\n]"),
        "{with_tools}"
    );

    let variables = json!({"date_string": "today", "messages": "never replaced"});
    let with_date =
        template(LLAMA3).render(&ChatRender { variables: variables.as_object(), ..chat }).unwrap();
    assert_eq!(with_date, expected.replace("30 Nov 2026", "today"));
}

#[test]
fn zephyr() {
    let source = "{% for message in messages %}\n{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token }}\n\
                  {% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}";
    assert_eq!(prompt(source, &[Message::user("a")]).unwrap(), "<|user|>\na</s>\n<|assistant|>\n");
}

const GEMMA: &str = "\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for message in messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('Roles must alternate user/assistant') }}
    {%- endif -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (message['content'] | trim) + '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}";

#[test]
fn gemma_and_its_refusals() {
    let turns = &talk()[1..];
    let expected = "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n\
                    <start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n";
    assert_eq!(prompt(GEMMA, turns).unwrap(), expected);
    let refusal = |messages: &[Message]| match prompt(GEMMA, messages) {
        Err(TemplateError::Refused { message }) => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(&talk()), "System role not supported");
    assert_eq!(refusal(&[Message::assistant("a")]), "Roles must alternate user/assistant");
}

#[test]
fn tokens_and_tools_are_always_defined() {
    let bare = ChatTemplate::new(
        "[{{ bos_token }}{{ eos_token }}]{{ tools is none }}{{ documents is none }}",
        "",
        "",
    )
    .unwrap();
    assert_eq!(bare.render(&ChatRender::default()).unwrap(), "[]TrueTrue");
}

#[test]
fn python_habits() {
    check("{{ messages[::-1][0].content }}{{ messages[-1]['content'] }}", "ByeBye");
    check(
        "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.role }}{% break %}{% endfor %}",
        "user",
    );
    check("{{ 'a</think>b'.split('</think>')[-1].lstrip('\\n') }}", "b");
    check(
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
        "4",
    );
    check(
        "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | length }}",
        "2",
    );
    check("{{ messages[0].content is string and messages is iterable and messages[0] is mapping }}", "True");
    check(
        "{% set m = namespace(role='x') %}{% set ms = [m] + messages %}{{ ms[0].role }}{{ namespace(m=m).m.role }}",
        "xx",
    );
    check(
        "{{ tools is iterable }}{{ 'a' is iterable }}{{ {} is sequence }}{{ 1 is iterable }}",
        "FalseTrueTrueFalse",
    );
    check("{{ '=' * 3 }}{{ messages | length * 2 + 1 }}{% set bar = '-' %}{{ bar * 2 }}", "===9--");
    check("{{ none }}{{ true }}{{ messages[0].get('x', 'd') }}{{ messages[0].missing }}", "NoneTrued");
    check("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f('a') ~ f(1) }}", "<a><1>");
    check(
        "{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}{% for k, v in {'b': 2} | items %}{{ k }}{{ v }}{% endfor %}",
        "a1b2",
    );
    check("{% generation %}{{ 'x' }}{% endgeneration %}", "x");
    check("{{ '<b>&' }}{{ 'don\\'t' | upper }}{{ 'a' if false }}", "<b>&DON'T");
}

#[test]
fn json_as_python_writes_it() {
    check(
        "{{ {'a': [1, 2.5, none, true], 'é': '<&\\'>'} | tojson }}",
        "{\"a\": [1, 2.5, null, true], \"é\": \"<&'>\"}",
    );
    check(
        "{{ {'b': 'é👍', 'a': 1} | tojson(ensure_ascii=true, sort_keys=true) }}",
        "{\"a\": 1, \"b\": \"\\u00e9\\ud83d\\udc4d\"}",
    );
    check(
        "{{ {'b': [1, 2]} | tojson(separators=(',', ':')) }}{{ [] | tojson }}{{ {} | tojson }}",
        "{\"b\":[1,2]}[]{}",
    );
}

#[test]
fn messages_keep_what_clients_send() {
    let message: Message =
        serde_json::from_value(json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}))
            .unwrap();
    let source =
        "{{ messages[0].content is none }}{{ messages[0].tool_calls[0].id }}{{ messages[0] | tojson }}";
    let expected = "True1{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\"}]}";
    assert_eq!(prompt(source, &[message]).unwrap(), expected);
}

#[test]
fn bad_templates_name_their_line() {
    let syntax = |source: &str| ChatTemplate::new(source, "", "").unwrap_err().to_string();
    assert!(
        syntax("a\n{% for x in %}").starts_with("chat template: line 2: syntax error"),
        "{}",
        syntax("a\n{% for x in %}")
    );
    assert!(syntax("\n\n{{ 'open }}").contains("line 3"));
    assert!(syntax("{% if x %}").contains("line 1"));
    assert!(syntax("{% nonsense %}").contains("nonsense"));
    let failure = |source: &str| prompt(source, &talk()).unwrap_err().to_string();
    assert!(
        failure("\n{{ messages[0].content.nope() }}").starts_with("chat template: line 2: unknown method")
    );
    assert!(failure("{{ nothing.at.all }}").contains("undefined value"));
    assert!(failure("{{ nofunction() }}").contains("nofunction"));
    assert!(failure("\n\n{% include 'other' %}").contains("line 3"));
    let large = " ".repeat(MAX_TEMPLATE_BYTES + 1);
    assert!(syntax(&large).contains("more than the 262144"));
}

#[test]
fn hostile_templates_stop_within_their_budget() {
    let nested = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    let doubling =
        "{% set n = namespace(s='x') %}{% for a in range(64) %}{% set n.s = n.s ~ n.s %}{% endfor %}";
    let listing = "{% set n = namespace(s=[1]) %}{% for a in range(64) %}{% set n.s = (n.s + n.s) | list %}{% endfor %}";
    let replacing = "{% set n = namespace(s='aa') %}{% for a in range(64) %}{% set n.s = n.s.replace('a', n.s) %}{% endfor %}";
    let tree = "{% set n = namespace(s=[1]) %}{% for a in range(64) %}{% set n.s = [n.s, n.s] %}{% endfor %}";
    let deep = "{% set n = namespace(s=[]) %}{% for a in range(99999) %}{% set n.s = [n.s] %}{% endfor %}";
    let deep_map =
        "{% set n = namespace(s={}) %}{% for a in range(99999) %}{% set n.s = {'a': n.s} %}{% endfor %}";
    let straight = format!("{{% set x = [1] %}}{}{{{{ x ~ '' }}}}", "{% set x = x, x %}".repeat(64));
    let keyword = format!("{{% set x = [1] %}}{}{{{{ x ~ '' }}}}", "{% set x = dict(a=x, b=x) %}".repeat(64));
    let scopes = format!(
        "{}{{{{ x64 ~ '' }}}}",
        (0..64).map(|n| format!("{{% with x{} = (x{n}, x{n}) %}}", n + 1)).collect::<String>()
    ) + &"{% endwith %}".repeat(64);
    let late = format!(
        "{{% set n = namespace(x=0) %}}{{% set x = [n] %}}{}{{% set n.x = range(99999) %}}{{{{ x ~ '' }}}}",
        "{% set x = [x, x] %}".repeat(18),
    );
    let defaults = "{% set x = range(9999) | map('default', 1) | list %}{{ range(9999) | map('frob') }}\
                    {{ range(9999) | map(attribute='a', default=x) | string | length }}";
    for source in [
        tree,
        deep,
        deep_map,
        &straight,
        &keyword,
        &scopes,
        defaults,
        "{{ [1] * 2 }}",
        "{{ 2 * messages }}",
        "{{ [[[[messages * 100000] * 100000] * 100000] * 100000] | tojson(indent=16) }}",
        "{% set n = namespace() %}{% set n.x = n %}{{ n }}",
        "{% set n = namespace() %}{% set n.x = [n] %}{{ n | tojson }}",
        "{% set n = namespace() %}{% set m = namespace(n=n) %}{% set n.m = m %}{{ n }}",
        "{% set n = namespace() %}{% set n.d = dict(n=n) %}{{ n }}",
        &late,
        nested,
        doubling,
        listing,
        replacing,
        "{{ 'x' * 999999999 }}",
        "{{ 'a' | center(99999999999) }}",
        "{{ messages | tojson(indent=99999999) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for a in range(99999) recursive %}{{ loop(range(99999)) }}{% endfor %}",
        "{{ '%999999999d' | format(1) }}",
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{{ range(9999999999) | list }}",
        "{{ ''.join(range(99999) | list * 99999) }}",
    ] {
        let start = Instant::now();
        let outcome = prompt(source, &talk());
        let took = start.elapsed();
        assert!(outcome.is_err(), "{source} gave {} bytes", outcome.map_or(0, |text| text.len()));
        assert!(took < Duration::from_secs(10), "{source} took {took:?}");
    }
    assert!(matches!(prompt(nested, &talk()), Err(TemplateError::TooMuchWork { .. })));
    assert!(matches!(prompt(doubling, &talk()), Err(TemplateError::TooMuchWork { .. })));
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(ChatTemplate::new(&deep, "", "").is_err());
}

#[test]
fn a_long_conversation_fits_its_budget() {
    let compact = CHATML.replace("    {{", "    {{-").replace("}}\n", "-}}\n");
    let messages: Vec<Message> =
        (0..4000).map(|n| Message::user("word ".repeat(200) + &n.to_string())).collect();
    let text = prompt(&compact, &messages).unwrap();
    assert!(text.len() > 4_000_000);
}
