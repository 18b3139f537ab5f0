// Codes for the parts of a plan that trees cannot carry.
//
// A session that codes cuts its bytes into generations of K blocks. Each link of its subgraph carries whole
// blocks of every generation: some of the root's, copied, and where ways meet on a link with room for one,
// sums of them. Every destination gets K that it can solve for.
#pragma once

#include <vector>

#include "planning/codes/edge_graph.h"
#include "square/field_kind.h"
#include "square/status.h"

namespace square::planning {

// Blocks of a generation at most: what a destination solves for stays small.
inline constexpr int kMostCodeBlocks = 32;

struct CodeDesign {
  // One block of each generation, copied along a tree.
  struct Flow {
    int origin = 0;           // a node: the root, or where it is added up
    std::vector<int> arcs;    // each after the one that feeds it
    std::vector<int> inputs;  // flows that are added; none: a block of the root, or a sum that it makes
    std::vector<double> factors;
    std::vector<double> row;  // of the root's blocks
    // Of floats: the same sum over bytes.
    std::vector<double> byte_factors = {};
    std::vector<double> byte_row = {};
  };
  struct Sink {
    std::vector<int> flows;                    // K + redundancy that end here
    std::vector<std::vector<double>> inverse;  // of the rows of the first K
    std::vector<std::vector<double>> byte_inverse = {};
  };
  FieldKind field = FieldKind::kGf256;
  int blocks = 1;           // K
  std::vector<Flow> flows;  // inputs before their sums
  std::vector<Sink> sinks;  // by terminal
  int redundancy = 0;       // so many of a sink's flows may be lost, whichever

  // Flows that are sums: coding edges.
  [[nodiscard]] int sum_count() const;
  // By arc: how many blocks of a generation it carries.
  [[nodiscard]] std::vector<int> copies(std::size_t arc_count) const;
};

// One of floats comes with factors over bytes, in GF(2^8), for blocks that sums of floats would spoil.
// Errors: as disjoint_ways() and code_coefficients().
Result<CodeDesign> design_code(FieldKind field, const CodeProblem& problem);

// How many blocks a generation needs so that `usage`, by arc and relative to the session's rate, is whole
// parts of it: the fewest with which it is to 1e-6, or else those that round it up by least.
struct WholeParts {
  int blocks = 1;
  std::vector<int> copies;  // by arc
};
WholeParts whole_parts(const std::vector<double>& usage);

}  // namespace square::planning
