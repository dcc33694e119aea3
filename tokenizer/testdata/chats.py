"""Chat templates of our own, rendered by Jinja2 as transformers sets it up."""

import json

import jinja2.sandbox

SYSTEM = {"role": "system", "content": "Be brief."}
CONVERSATIONS = [
    {"messages": [{"role": "user", "content": "Hi"}]},
    {"messages": [SYSTEM, {"role": "user", "content": " What's\n5 < 6? "}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."},
                  {"role": "user", "content": "漢字 & \"quotes\""}]},
    {"messages": [SYSTEM, {"role": "user", "content": "Weather?"},
                  {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": {"where": "Köln", "days": 2}}}]},
                  {"role": "tool", "content": "rain"}],
     "vars": {"tools": [{"type": "function", "function": {"name": "weather", "description": "Tells <it>", "parameters": {
         "type": "object", "properties": {"where": {"type": "string"}, "days": {"type": "integer", "default": 1.5}}, "required": ["where"]}}}],
         "enable_thinking": False}},
]
CHATML = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=0, text='') %}
{% for message in messages %}
    {% set content = message.content|trim if message.role == 'user' else message.content %}
  {% if loop.index0 == 0 and message.role == 'system' %}
    {% set ns.text = ns.text + content %}
    {% continue %}
  {% endif %}
{{ '<|im_start|>' + message['role'] + '\\n' + content + '<|im_end|>' }}
{% if message.tool_calls is defined %}{% for c in message.tool_calls %}<tool_call>{{ c.function.name }}{% for k, v in c.function.arguments.items() %}|{{ k }}={{ v }}{% endfor %}</tool_call>
{% endfor %}{% endif %}
{% set ns.last = loop.index %}
{% endfor %}
[{{ ns.last }}{{ ns.text }}]
{% if add_generation_prompt %}
<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}
{% endif %}"""
MACRO = """{# macros that call themselves, a block set, a raw block #}
{%- macro shape(t, depth) -%}
  {%- if t.properties is defined -%}
    { {%- for k, v in t.properties.items() -%}
      {{ k }}: {{ shape(v, depth + 1) }}{{ ", " if not loop.last }}
    {%- endfor -%} }
  {%- else -%}{{ t.type }}@{{ depth }}{%- endif -%}
{%- endmacro -%}
{%- set head -%}  {{ bos_token }}{% for m in messages[::-1] %}{{ m.role[0] | upper }}{% endfor %}  {%- endset -%}
{{ head }}|{% raw %}{% for x in y %}{{ x }}{% endraw %}|
{%- for t in tools or [] %}{{ shape(t.function.parameters, 0) }}{% endfor %}
{%- for i in range(3) %} {{ i }}{% if i == 1 %}{% break %}{% endif %}{% endfor %}
    {% if messages[-1].role == 'tool' %}{{ raise_exception('no answers') }}{% endif %}
{{ eos_token }}
"""
# The frame of Spark 2.5, in words of our own.
SPARK = """{%- set open = '<｜start▁of▁sentence｜>' -%}
{%- set close = '<｜end▁of▁sentence｜>' -%}
{{- open + '<|System|>\\nyou are a helpful assistant.' -}}
{%- if messages[0].role == 'system' %}{{ '\\n\\n' + messages[0].content }}{% endif %}{{ close }}
{%- for m in messages %}
{%- if m.role == 'user' %}{{ open + '<|User|>' + m.content + close }}
{%- elif m.role == 'assistant' %}{{ open + '<|Bot|></think>' + m.content.split('</think>')[-1].lstrip('\\n') }}
{%- for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}
{%- for k, v in c.function.arguments | items %}<arg_key>{{ k }}</arg_key><arg_value>{{ v if v is string else v | tojson }}</arg_value>{% endfor %}</tool_call>{% endfor %}{{ close }}
{%- elif m.role == 'tool' %}{{ open + '<|Tool|><tool_response>' + m.content + '</tool_response>' + close }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ open + '<|Bot|>' + ('<think>' if enable_thinking is not defined or enable_thinking else '</think>') }}{% endif %}"""


def render(source, tokens):
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: "now"
    t = env.from_string(source)
    out = []
    for c in CONVERSATIONS:
        for prompt in [False, True]:
            try:
                text = t.render(**{"tools": None, "documents": None, **tokens, **c.get("vars", {})}, messages=c["messages"], add_generation_prompt=prompt)
            except jinja2.exceptions.TemplateError:
                text = None
            out.append({**c, "prompt": prompt, "text": text})
    return out
