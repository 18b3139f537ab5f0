#include "base/plan/codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"

namespace square {
namespace {

bool is_in(FieldKind field, double value) {
  if (field == FieldKind::kFloat32) return std::isfinite(value);
  const double end = field == FieldKind::kGf256 ? 256.0 : 65'536.0;
  return value >= 0.0 && value < end && value == std::floor(value);
}

class Check {
 public:
  explicit Check(const PlanSession& session) : session_(session) {}

  Status run() const {
    for (std::size_t s = 0; s < session_.streams.size(); ++s) {
      if (!session_.streams[s].coded) continue;
      if (!is_stream_sound(s))
        return invalid_argument(
            fmt::format("session {}, stream {}: its part of a code is none that a node could add",
                        session_.id.value(), s));
      if (!has_bytes_too(*session_.streams[s].coded))
        return invalid_argument(
            fmt::format("session {}, stream {}: a code of float32, and no other, has a byte factor for each "
                        "term and a byte row beside its row; plan it again",
                        session_.id.value(), s));
    }
    for (std::size_t c = 0; c < session_.codes.size(); ++c) {
      if (!is_code_sound(c))
        return invalid_argument(fmt::format("session {}, code {}: it is incomplete", session_.id.value(), c));
    }
    return Status::ok();
  }

 private:
  [[nodiscard]] bool is_of(std::size_t code, StreamIndex index) const {
    if (index.index() >= session_.streams.size()) return false;
    const auto& part = session_.streams[index.index()].coded;
    return part && part->code == code;
  }

  [[nodiscard]] bool is_stream_sound(std::size_t s) const {
    const PlanCodePart& part = *session_.streams[s].coded;
    if (part.code >= session_.codes.size()) return false;
    const PlanCode& code = session_.codes[part.code];
    const auto is_number = [&](double value) { return is_in(code.field, value); };
    if (part.row.size() != code.blocks || !std::ranges::all_of(part.row, is_number)) return false;
    std::set<StreamIndex> seen;
    return std::ranges::all_of(part.terms, [&](const auto& term) {
      const auto& [index, factor] = term;
      if (!is_of(part.code, index) || index.index() >= s || !is_number(factor) || !seen.insert(index).second)
        return false;
      const auto ends_there = [&](const auto& link) { return link.second == part.origin; };
      return std::ranges::any_of(session_.streams[index.index()].links, ends_there);
    });
  }

  // As many numbers over bytes as over floats, and what is a block as it is stays one.
  [[nodiscard]] bool has_bytes_too(const PlanCodePart& part) const {
    if (session_.codes[part.code].field != FieldKind::kFloat32)
      return part.byte_factors.empty() && part.byte_row.empty();
    return part.byte_factors.size() == part.terms.size() && part.byte_row.size() == part.row.size() &&
           (!plain_block(part) || part.byte_row == part.row);
  }

  [[nodiscard]] bool is_code_sound(std::size_t c) const {
    const PlanCode& code = session_.codes[c];
    if (code.blocks == 0 || code.blocks > kMaxCodeBlocks || to_string(code.field) == "?") return false;
    if (code.redundancy > kMaxCodeBlocks) return false;
    return std::ranges::all_of(code.sinks, [&](const PlanCode::Sink& sink) {
      return sink.streams.size() == code.blocks + code.redundancy &&
             std::ranges::all_of(sink.streams, [&](StreamIndex stream) { return is_of(c, stream); });
    });
  }

  const PlanSession& session_;
};

}  // namespace

Status check_codes(const PlanSession& session) {
  SQUARE_RETURN_IF_ERROR(Check(session).run());
  return has_codes_of_floats(session) ? Check(as_bytes(session)).run() : Status::ok();
}

bool has_codes_of_floats(const PlanSession& session) {
  return std::ranges::any_of(session.codes,
                             [](const PlanCode& code) { return code.field == FieldKind::kFloat32; });
}

PlanSession as_bytes(PlanSession session) {
  for (PlanStream& stream : session.streams) {
    if (!stream.coded || stream.coded->code >= session.codes.size()) continue;
    if (session.codes[stream.coded->code].field != FieldKind::kFloat32) continue;
    PlanCodePart& part = *stream.coded;
    part.byte_factors.resize(part.terms.size());
    for (std::size_t i = 0; i < part.terms.size(); ++i) part.terms[i].second = part.byte_factors[i];
    part.byte_row.resize(part.row.size());
    part.row = std::exchange(part.byte_row, {});
    part.byte_factors.clear();
  }
  for (PlanCode& code : session.codes) {
    if (code.field != FieldKind::kFloat32) continue;
    code.field = FieldKind::kGf256;
    for (PlanCode::Sink& sink : code.sinks) sink.inverse = std::exchange(sink.byte_inverse, {});
  }
  return session;
}

}  // namespace square
