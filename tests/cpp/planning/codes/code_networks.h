// Networks to code over, and what a code on one of them delivers when it is run with the public codes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "planning/codes/code_design.h"
#include "square/decoder.h"
#include "square/encoder.h"
#include "square/recoder.h"

namespace square::testing {

using planning::CodeDesign;
using planning::CodeProblem;
using planning::Digraph;

struct Network {
  Digraph graph{0};
  CodeProblem problem;

  [[nodiscard]] CodeProblem with_graph() const {
    CodeProblem whole = problem;
    whole.graph = &graph;
    return whole;
  }
};

inline Network network(int nodes, const std::vector<std::pair<int, int>>& arcs, int root,
                       std::vector<int> terminals, int blocks) {
  Network made;
  made.graph = Digraph(nodes);
  for (const auto& [from, to] : arcs) made.graph.add_arc(from, to);
  made.problem = {nullptr, root, std::move(terminals), blocks, std::vector<int>(arcs.size(), 1)};
  return made;
}

// Ahlswede et al. (2000): s 0, a 1, b 2, c 3, d 4, t 5, u 6.
inline Network butterfly_network() {
  return network(7, {{0, 1}, {0, 2}, {1, 5}, {2, 6}, {1, 3}, {2, 3}, {3, 4}, {4, 5}, {4, 6}}, 0, {5, 6}, 2);
}

// C(n, h): n relays, a terminal for every h of them (Ngai and Yeung, 2004).
inline Network combination(int n, int h) {
  std::vector<std::pair<int, int>> arcs;
  std::vector<int> terminals;
  for (int relay = 1; relay <= n; ++relay) arcs.emplace_back(0, relay);
  std::vector<bool> chosen(static_cast<std::size_t>(n), false);
  std::fill(chosen.begin(), chosen.begin() + h, true);
  int node = n + 1;
  do {
    for (int relay = 0; relay < n; ++relay) {
      if (chosen[static_cast<std::size_t>(relay)]) arcs.emplace_back(relay + 1, node);
    }
    terminals.push_back(node++);
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return network(node, arcs, 0, terminals, h);
}

// Arcs of one block each that fit from the root to `terminal` at once.
inline int unit_cut(const Digraph& graph, int root, int terminal) {
  std::vector<bool> used(graph.arcs.size(), false);
  for (int flow = 0;; ++flow) {
    std::vector<int> came(static_cast<std::size_t>(graph.node_count()), -2);
    std::vector<int> queue{root};
    came[static_cast<std::size_t>(root)] = -1;
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const auto step = [&](int arc, int to) {
        if (came[static_cast<std::size_t>(to)] != -2) return;
        came[static_cast<std::size_t>(to)] = arc;
        queue.push_back(to);
      };
      for (const int arc : graph.out[static_cast<std::size_t>(queue[head])])
        if (!used[static_cast<std::size_t>(arc)]) step(arc, graph.arcs[static_cast<std::size_t>(arc)].to);
      for (const int arc : graph.in[static_cast<std::size_t>(queue[head])])
        if (used[static_cast<std::size_t>(arc)]) step(arc, graph.arcs[static_cast<std::size_t>(arc)].from);
    }
    if (came[static_cast<std::size_t>(terminal)] == -2) return flow;
    for (int node = terminal; node != root;) {
      const auto arc = static_cast<std::size_t>(came[static_cast<std::size_t>(node)]);
      node = used[arc] ? graph.arcs[arc].to : graph.arcs[arc].from;
      used[arc] = !used[arc];
    }
  }
}

// Random arcs, without circles where `is_layered`; every terminal can have `blocks` at once.
inline Network random_network(std::mt19937_64& chance, int nodes, int arcs, int most_terminals,
                              bool is_layered) {
  while (true) {
    std::vector<std::pair<int, int>> ends;
    for (int a = 0; a < arcs; ++a) {
      int from = static_cast<int>(chance() % static_cast<unsigned>(nodes));
      int to = static_cast<int>(chance() % static_cast<unsigned>(nodes));
      if (from == to) continue;
      if (is_layered && from > to) std::swap(from, to);
      ends.emplace_back(from, to);
    }
    Network made = network(nodes, ends, 0, {}, 1);
    int blocks = 1 << 20;
    const auto count = 1 + chance() % static_cast<unsigned>(most_terminals);
    for (std::size_t tries = 0; tries < 4 * count && made.problem.terminals.size() < count; ++tries) {
      const int node = 1 + static_cast<int>(chance() % static_cast<unsigned>(nodes - 1));
      if (std::ranges::find(made.problem.terminals, node) != made.problem.terminals.end()) continue;
      const int cut = unit_cut(made.graph, 0, node);
      if (cut < 2) continue;
      blocks = std::min(blocks, cut);
      made.problem.terminals.push_back(node);
    }
    if (made.problem.terminals.empty()) continue;
    made.problem.blocks = std::min(blocks, planning::kMostCodeBlocks);
    return made;
  }
}

// Random bytes (or numbers), sent along the flows of `design` by Encoder and recode(), and decoded at every
// terminal.
struct Delivery {
  std::vector<std::byte> sent;
  std::vector<std::vector<std::byte>> received;  // by terminal; empty where it could not be decoded
};
inline Delivery deliver(const CodeDesign& design, std::vector<std::byte> data) {
  Delivery delivery{std::move(data), {}};
  const Encoder encoder =
      *Encoder::make({0, design.field, static_cast<std::uint32_t>(design.blocks)}, delivery.sent);
  std::vector<CodedBlock> blocks;
  for (const CodeDesign::Flow& flow : design.flows) {
    if (flow.inputs.empty()) {
      blocks.push_back(*encoder.coded(flow.row));
      continue;
    }
    std::vector<CodedBlock> inputs;
    for (const int input : flow.inputs) inputs.push_back(blocks[static_cast<std::size_t>(input)]);
    blocks.push_back(*recode(inputs, flow.factors));
  }
  for (const CodeDesign::Sink& sink : design.sinks) {
    std::vector<std::byte>& out = delivery.received.emplace_back(delivery.sent.size());
    Decoder decoder = *Decoder::make(encoder.generation(), out);
    for (const int flow : sink.flows) (void)decoder.add(blocks[static_cast<std::size_t>(flow)]);
    if (!decoder.finish().is_ok()) out.clear();
  }
  return delivery;
}

}  // namespace square::testing
