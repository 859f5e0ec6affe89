/** Graphs that were made elsewhere. */

import { Graph } from "./graph.js";
import { GraphDef } from "./messages.generated.js";

/**
 * Add a graph that was made elsewhere, under the names its nodes have: variables of the same names are the same ones.
 * What it gives is fed and fetched by name, "logits/BiasAdd:0"; gradients are not made through it.
 *
 * @param data a GraphDef, as TensorFlow writes it
 * @throws RangeError it is none; TypeError the graph has a node of such a name
 */
export function importGraph(graph: Graph, data: Uint8Array): void {
  const read = GraphDef.decode(data);
  for (const one of read.library?.function ?? []) graph.addFunction(one);
  for (const node of read.node) graph.addNode(node);
}
