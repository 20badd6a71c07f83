# ruff: noqa: N802 (Jinja finds visitors by the names of its node classes)
"""Makes a parsed template send what Jinja does not let a sandbox intercept through methods of its environment.

==========  ========================================================
``x in``    a loop's items, through ``counted``
``a ~ b``   through ``concatenated``
``a[b:c]``  through ``sliced``
``a == b``  and the like, unless one side is a constant: both through ``measured``
``{a: b}``  a key that is no constant, through ``measured``
==========  ========================================================
"""

from typing import cast

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.visitor import NodeTransformer


def rewritten(template: nodes.Template) -> nodes.Template:
    """The same template, changed in place."""
    return cast(nodes.Template, _Rewriter().visit(template))


class Compiler(CodeGenerator):
    """Jinja's compiler, but calls of the environment's own methods go straight there. Only the rewriting makes them."""

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:
        if not isinstance(node.node, nodes.EnvironmentAttribute):
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        self.visit(node.node, frame)
        self.write("(")
        for arg in node.args:
            self.visit(arg, frame)
            self.write(", ")
        self.write(")")


class _Rewriter(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.Node:
        node.iter = _through("counted", node.iter)
        return self.generic_visit(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        return self.generic_visit(_through("concatenated", *node.nodes))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        if isinstance(node.arg, nodes.Slice):
            bounds = [part or nodes.Const(None) for part in (node.arg.start, node.arg.stop, node.arg.step)]
            return self.generic_visit(_through("sliced", node.node, *bounds))
        return self.generic_visit(node)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        # A constant is a plain text or number: comparing with it cannot take long.
        if not isinstance(node.expr, nodes.Const) and not all(isinstance(op.expr, nodes.Const) for op in node.ops):
            node.expr = _through("measured", node.expr)
            for operand in node.ops:
                operand.expr = _through("measured", operand.expr)
        return self.generic_visit(node)

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        if not isinstance(node.key, nodes.Const):
            node.key = _through("measured", node.key)
        return self.generic_visit(node)


def _through(method: str, *args: nodes.Node) -> nodes.Call:
    return nodes.Call(
        nodes.EnvironmentAttribute(method), cast(list[nodes.Expr], [*args]), [], None, None, lineno=args[0].lineno
    )
