# ruff: noqa: E501 (the templates of models have long lines)
"""Chat templates of the shapes that are met in the wild, written for these tests."""

LLAMA3 = """
{{- bos_token }}
{%- if tools is defined and tools is not none %}
    {%- set has_tools = true %}
{%- else %}
    {%- set has_tools = false %}
{%- endif %}
{%- if date_string is not defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if has_tools %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{{- "Today: " + date_string + "\n\n" + system_message + "<|eot_id|>" }}
{%- for tool in tools or [] %}
    {{- tool | tojson(indent=4) ~ "\n\n" }}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'tool' or 'tool_calls' in message %}
        {%- if 'tool_calls' in message and message.tool_calls | length != 1 %}
            {{- raise_exception("only one tool call at a time") }}
        {%- endif %}
        {%- if 'tool_calls' in message %}
            {%- set call = message.tool_calls[0].function %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "' + call.name + '", "parameters": ' }}
            {{- call.arguments | tojson }}
            {{- "}<|eot_id|>" }}
        {%- else %}
            {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" + (message.content | tojson) + "<|eot_id|>" }}
        {%- endif %}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""

MISTRAL = """
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.tool_calls is defined) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate user and assistant") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val | tojson }}
                    {%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function | tojson %}
            {{- out[:-1] }}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] | trim + eos_token }}
    {%- elif message["role"] == "tool" %}
        {{- '[TOOL_RESULTS] {"content": ' + message.content | string + "}[/TOOL_RESULTS]" }}
    {%- endif %}
{%- endfor %}
"""

EVERYTHING = """
{%- macro field(name, value='none') -%}
    {{ name }}={{ value }}{{ varargs | join('|') }}{{ kwargs.items() | list }}
{%- endmacro %}
{%- macro wrap(tag) -%}<{{ tag }}>{{ caller() }}</{{ tag }}>{%- endmacro %}
{% for message in messages | reverse if message.content %}
{% if loop.index0 >= 6 %}{% break %}{% endif %}
{% if message.role == 'skip' %}{% continue %}{% endif %}
    {{ loop.index }}/{{ loop.length }} {{ loop.cycle('odd', 'even') }} {{ loop.last }} {{ loop.nextitem is defined }}
    {% generation %}{{ message.content.split('.')[-1].strip() }}{% endgeneration %}
    {{ field(message.role | upper, message['content'][::-1], 'a', 'b', k=1) }}
{% call wrap('x') %}{{ message.content | replace('a', '<b>') | indent(2) }}{% endcall %}
{% set text %}{{ message.role ~ ':' ~ 3 ~ none ~ [1, 'x'] }}{% endset %}
    {{ text | length }} {{ text.startswith('user') }} {{ '%s-%05.1f' | format(text, 2.5) }} {{ '{:>8}|{!r}'.format('r', 'q') }}
{% else %}
nothing
{% endfor %}
{{ messages | map(attribute='role') | unique | sort | join(', ') }}
{{ messages | selectattr('role', 'in', ['user', 'system']) | map(attribute='content') | map('length') | sum }}
{{ messages | groupby('role') | map('first') | list }} {{ messages | rejectattr('content') | list | count }}
{{ {'b': 1, 'a': [1, {'c': none}]} | dictsort }} {{ {'z': '<&>"', 'n': 1.5} | tojson }} {{ ('ab' * 2) ~ 7 // 2 ~ 2 ** 3 }}
{{ [3, 1] + [2] | list }} {{ (1, 2) == (1, 2) }} {{ 'a' in 'abc' and 1 in [1] }} {{ range(2, 8, 3) | list }} {{ undefined_thing }}
{{ [[1, [2]], [3]] | tojson(indent=2) }} {{ 'x' is string }} {{ none is none }} {{ missing is undefined }} {{ '-'.join(['p', 'q']) }}
{{ 'Title here' | title }} {{ ' t ' | trim }} {{ 'x,y'.replace(',', ';') }} {{ '7'.zfill(3) }} {{ [1, 2, 3][1:] }} {{ 'abc'[0] }}
{{ enable_thinking | default(true) }} {{ dict(a=1).get('b', 'no') }} {{ tools | tojson if tools else 'no tools' }} {{ documents is none }}
{% set counter = namespace(n=0) %}{% for i in range(5) %}{% set counter.n = counter.n + i * loop.length %}{% endfor %}{{ counter.n }}
{% filter upper %}shout{% endfilter %} {{ bos_token }}{{ eos_token }} {{ 10 | string }} {{ 3.7 | int }} {{ '3' | float }} {{ -2 | abs }}
"""
