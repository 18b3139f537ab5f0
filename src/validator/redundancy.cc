// Codes with redundancy: do the ways to a member share nothing that could fail, and do any K of what comes on
// them decode?
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "validator/arithmetic.h"
#include "validator/checks.h"

namespace square::validation {
namespace {

using Matrix = std::vector<std::vector<double>>;

// The next choice of as many of `end` positions, ascending; false after the last.
bool next_choice(std::vector<std::size_t>& choice, std::size_t end) {
  for (std::size_t k = choice.size(); k-- > 0;) {
    if (choice[k] + (choice.size() - k) >= end) continue;
    std::iota(choice.begin() + static_cast<std::ptrdiff_t>(k), choice.end(), choice[k] + 1);
    return true;
  }
  return false;
}

class Redundancy {
 public:
  Redundancy(const PlanSession& session, const Plan& plan, Findings& findings)
      : session_(session), plan_(plan), findings_(findings) {}

  void check(std::size_t c) {
    const PlanCode& code = session_.codes[c];
    if (code.redundancy == 0) return;
    if (code.field == FieldKind::kFloat32) {
      findings_.add("session {}, code {}: redundancy is for finite fields", session_.id.value(), c);
      return;
    }
    std::set<Matrix> checked;
    for (const PlanCode::Sink& sink : code.sinks) {
      check_ways(c, sink);
      Matrix sums = sums_of(code, sink);
      if (checked.contains(sums)) continue;
      check_sums(c, sums, sink);
      checked.insert(std::move(sums));
    }
  }

 private:
  // Each link and each node in between is on one way.
  void check_ways(std::size_t c, const PlanCode::Sink& sink) {
    std::set<NodeId> nodes;
    std::set<std::pair<NodeId, NodeId>> links;
    for (const StreamIndex index : sink.streams) {
      const PlanStream& stream = session_.streams[index.index()];
      std::map<NodeId, NodeId> from;
      for (const auto& [tail, head] : stream.links) from.emplace(head, tail);
      bool is_apart = stream.coded->origin == session_.root;
      for (NodeId here = sink.member; is_apart && here != session_.root;) {
        const auto link = from.find(here);
        is_apart = link != from.end() && links.emplace(link->second, here).second &&
                   (link->second == session_.root || nodes.insert(link->second).second);
        if (is_apart) here = link->second;
      }
      if (is_apart) continue;
      findings_.add("session {}, code {}: the ways to {} share a node or a link, or do not begin at the root",
                    session_.id.value(), c, plan_.nodes[sink.member.index()].name);
      return;
    }
  }

  // The streams beyond the first K, as sums of those.
  [[nodiscard]] Matrix sums_of(const PlanCode& code, const PlanCode::Sink& sink) const {
    const Arithmetic field(code.field);
    Matrix sums;
    for (std::size_t s = code.blocks; s < sink.streams.size(); ++s) {
      const std::vector<double>& row = session_.streams[sink.streams[s].index()].coded->row;
      std::vector<double>& sum = sums.emplace_back(code.blocks, 0.0);
      for (std::size_t b = 0; b < code.blocks; ++b) {
        for (std::size_t k = 0; k < code.blocks; ++k)
          sum[k] = field.plus_product(sum[k], row[b], sink.inverse[b][k]);
      }
    }
    return sums;
  }

  // Where some of the first are lost, as many sums solve for them: each square part has a determinant.
  void check_sums(std::size_t c, const Matrix& sums, const PlanCode::Sink& sink) {
    const PlanCode& code = session_.codes[c];
    const Arithmetic field(code.field);
    for (std::size_t lost = 1; lost <= std::min<std::size_t>(sums.size(), code.blocks); ++lost) {
      std::vector<std::size_t> rows(lost);
      std::iota(rows.begin(), rows.end(), std::size_t{0});
      do {
        std::vector<std::size_t> columns(lost);
        std::iota(columns.begin(), columns.end(), std::size_t{0});
        do {
          if (determinant(field, sums, rows, columns) != 0.0) continue;
          findings_.add("session {}, code {}: {} cannot decode where {} of its first streams are lost",
                        session_.id.value(), c, plan_.nodes[sink.member.index()].name, lost);
          return;
        } while (next_choice(columns, code.blocks));
      } while (next_choice(rows, sums.size()));
    }
  }

  // Along the first row; where 1 is -1, signs do not matter.
  static double determinant(const Arithmetic& field, const Matrix& matrix,
                            const std::vector<std::size_t>& rows, const std::vector<std::size_t>& columns) {
    if (rows.empty()) return 1.0;
    const std::vector<std::size_t> below(rows.begin() + 1, rows.end());
    double sum = 0.0;
    for (std::size_t k = 0; k < columns.size(); ++k) {
      std::vector<std::size_t> others = columns;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
      sum = field.plus_product(sum, matrix[rows.front()][columns[k]],
                               determinant(field, matrix, below, others));
    }
    return sum;
  }

  const PlanSession& session_;
  const Plan& plan_;
  Findings& findings_;
};

}  // namespace

void check_redundancy(const Plan& plan, Findings& findings) {
  for (const PlanSession& session : plan.sessions) {
    for (std::size_t c = 0; c < session.codes.size(); ++c) Redundancy(session, plan, findings).check(c);
  }
}

}  // namespace square::validation
