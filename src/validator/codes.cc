// Codes: is each sum made where its terms come, is it what it claims, and can every member solve for the
// blocks?
#include "base/plan/codes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "validator/arithmetic.h"
#include "validator/checks.h"

namespace square::validation {
namespace {

class Codes {
 public:
  Codes(const PlanSession& session, const Plan& plan, std::string name, Findings& findings)
      : session_(session), plan_(plan), findings_(findings), name_(std::move(name)) {
    for (const PlanStream& stream : session_.streams) {
      std::set<NodeId>& nodes = reached_.emplace_back();
      if (!stream.coded) continue;
      for (const auto& [from, to] : stream.links) nodes.insert(to);
    }
  }

  // False where nothing can be said of what is added.
  bool check() {
    if (session_.codes.empty()) return false;
    if (session_.kind != SessionKind::kMulticast) findings_.add("{}: only a multicast can be coded", name_);
    for (std::size_t s = 0; s < session_.streams.size(); ++s) {
      if (session_.streams[s].coded) check_stream(s);
    }
    if (!are_rows_whole_) return false;
    for (std::size_t c = 0; c < session_.codes.size(); ++c) check_code(c);
    check_sums();
    return true;
  }

  // The arithmetic alone.
  void check_sums() {
    for (std::size_t s = 0; s < session_.streams.size(); ++s) {
      if (session_.streams[s].coded) check_row(s);
    }
    for (std::size_t c = 0; c < session_.codes.size(); ++c) {
      for (const PlanCode::Sink& sink : session_.codes[c].sinks) check_sink(c, sink);
    }
  }

 private:
  [[nodiscard]] const PlanCode& code_of(std::size_t s) const {
    return session_.codes[session_.streams[s].coded->code];
  }

  void check_stream(std::size_t s) {
    const PlanStream& stream = session_.streams[s];
    const PlanCodePart& part = *stream.coded;
    const PlanCode& code = code_of(s);
    if (!about_equal(stream.rate_bps * code.blocks, code.rate_bps)) {
      findings_.add("{}, stream {}: it has {}, a block of each generation of code {} takes {}", name_, s,
                    mbps(stream.rate_bps), part.code, mbps(code.rate_bps / code.blocks));
    }
    if (part.terms.empty() != (part.origin == session_.root)) {
      findings_.add("{}, stream {}: it begins at {}, which has nothing to send on it", name_, s,
                    plan_.nodes[part.origin.index()].name);
    }
    const Arithmetic field(code.field);
    are_rows_whole_ = are_rows_whole_ && part.row.size() == code.blocks;
    bool is_known = std::ranges::all_of(part.row, [&](double value) { return field.contains(value); });
    std::set<StreamIndex> terms;
    for (const auto& [term, factor] : part.terms) {
      const auto& other = session_.streams[term.index()];
      is_known = is_known && field.contains(factor);
      if (!terms.insert(term).second)
        findings_.add("{}, stream {}: it adds stream {} twice", name_, s, term.value());
      if (!other.coded || other.coded->code != part.code || !reached_[term.index()].contains(part.origin)) {
        findings_.add("{}, stream {}: it adds stream {}, which does not come there", name_, s, term.value());
        are_rows_whole_ = false;  // it may have none
      }
    }
    check_bytes_too(s);
    if (!is_known || part.row.size() != code.blocks) {
      findings_.add("{}, stream {}: its row is not {} numbers of {}", name_, s, code.blocks,
                    to_string(code.field));
      are_rows_whole_ = false;
    }
  }

  // Over bytes the same sums are made, and a block that goes as it is does so there.
  void check_bytes_too(std::size_t s) {
    const PlanCodePart& part = *session_.streams[s].coded;
    const bool are_floats = code_of(s).field == FieldKind::kFloat32;
    const auto is_byte = [](double value) { return Arithmetic(FieldKind::kGf256).contains(value); };
    if (part.byte_factors.size() != (are_floats ? part.terms.size() : 0) ||
        part.byte_row.size() != (are_floats ? part.row.size() : 0)) {
      findings_.add("{}, stream {}: {} byte factors and a byte row of {} for {} terms and {} blocks", name_,
                    s, part.byte_factors.size(), part.byte_row.size(), part.terms.size(), part.row.size());
    } else if (!std::ranges::all_of(part.byte_factors, is_byte) ||
               !std::ranges::all_of(part.byte_row, is_byte)) {
      findings_.add("{}, stream {}: what it adds over bytes are not numbers of {}", name_, s,
                    to_string(FieldKind::kGf256));
      are_rows_whole_ = false;
    } else if (are_floats && plain_block(part) && part.byte_row != part.row) {
      findings_.add("{}, stream {}: a block as it is, but not over bytes", name_, s);
    }
  }

  // What a sum is made of is known before it: terms come earlier.
  void check_row(std::size_t s) {
    const PlanCodePart& part = *session_.streams[s].coded;
    if (part.terms.empty()) {
      if (std::ranges::count(part.row, 0.0) == static_cast<std::ptrdiff_t>(part.row.size()))
        findings_.add("{}, stream {}: its row is zero", name_, s);
      return;
    }
    const Arithmetic field(code_of(s).field);
    std::vector<double> sum(part.row.size(), 0.0);
    for (const auto& [term, factor] : part.terms) {
      if (term.index() >= s) {
        findings_.add("{}, stream {}: it adds stream {}, which comes after it", name_, s, term.value());
        return;
      }
      const std::vector<double>& other = session_.streams[term.index()].coded->row;
      for (std::size_t b = 0; b < sum.size() && b < other.size(); ++b)
        sum[b] = field.plus_product(sum[b], factor, other[b]);
    }
    for (std::size_t b = 0; b < sum.size(); ++b) {
      if (field.are_equal(sum[b], part.row[b])) continue;
      findings_.add("{}, stream {}: its row says {} of block {}, its terms make {}", name_, s, part.row[b], b,
                    sum[b]);
      return;
    }
  }

  void check_code(std::size_t c) {
    const PlanCode& code = session_.codes[c];
    if (!(code.rate_bps > 0.0) || !std::isfinite(code.rate_bps))
      findings_.add("{}, code {}: its rate is not positive and finite", name_, c);
    std::set<NodeId> missing(session_.members.begin(), session_.members.end());
    missing.erase(session_.root);
    for (const PlanCode::Sink& sink : code.sinks) {
      if (missing.erase(sink.member) == 0) {
        findings_.add("{}, code {}: {} is no member, or twice there", name_, c, node_name(sink.member));
      }
    }
    for (const NodeId member : missing)
      findings_.add("{}, code {}: nothing is said of member {}", name_, c, node_name(member));
  }

  // The inverse times the rows of its first streams is one.
  void check_sink(std::size_t c, const PlanCode::Sink& sink) {
    const PlanCode& code = session_.codes[c];
    const auto comes = [&](StreamIndex stream) {
      const PlanStream& planned = session_.streams[stream.index()];
      return planned.coded && planned.coded->code == c && reached_[stream.index()].contains(sink.member);
    };
    const Arithmetic field(code.field);
    const auto is_row = [&](const std::vector<double>& row) {
      return row.size() == code.blocks &&
             std::ranges::all_of(row, [&](double value) { return field.contains(value); });
    };
    if (sink.streams.size() != code.blocks + code.redundancy || !std::ranges::all_of(sink.streams, comes)) {
      findings_.add("{}, code {}: {} does not get {} blocks of a generation", name_, c,
                    node_name(sink.member), code.blocks + code.redundancy);
      return;
    }
    if (sink.inverse.size() != code.blocks || !std::ranges::all_of(sink.inverse, is_row)) {
      findings_.add("{}, code {}: {} has no inverse of {} rows of {}", name_, c, node_name(sink.member),
                    code.blocks, to_string(code.field));
      return;
    }
    for (std::size_t i = 0; i < code.blocks; ++i) {
      for (std::size_t b = 0; b < code.blocks; ++b) {
        double sum = 0.0;
        for (std::size_t k = 0; k < code.blocks; ++k) {
          const double row = session_.streams[sink.streams[k].index()].coded->row[b];
          sum = field.plus_product(sum, sink.inverse[i][k], row);
        }
        if (field.are_equal(sum, i == b ? 1.0 : 0.0)) continue;
        findings_.add("{}, code {}: {} cannot solve for block {}", name_, c, node_name(sink.member), i);
        return;
      }
    }
  }

  [[nodiscard]] const std::string& node_name(NodeId node) const { return plan_.nodes[node.index()].name; }

  const PlanSession& session_;
  const Plan& plan_;
  Findings& findings_;
  const std::string name_;
  std::vector<std::set<NodeId>> reached_;  // by stream, of coded ones: where their links lead
  bool are_rows_whole_ = true;
};

}  // namespace

void check_codes(const Plan& plan, Findings& findings) {
  for (const PlanSession& session : plan.sessions) {
    const std::string name = fmt::format("session {}", session.id.value());
    if (!Codes(session, plan, name, findings).check() || !has_codes_of_floats(session)) continue;
    const PlanSession over_bytes = as_bytes(session);
    Codes(over_bytes, plan, name + " over bytes", findings).check_sums();
  }
}

}  // namespace square::validation
