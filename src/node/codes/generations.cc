#include "node/codes/generations.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "coding/codes/payload.h"
#include "coding/codes/row_space.h"
#include "coding/fields/field.h"
#include "node/codes/coded_payload.h"

namespace square {

std::size_t Generations::end_of(const Pending& one) const {
  return std::min<std::size_t>(block_count_, one.first + one.parts.front().stream->code->blocks);
}

Generations::CodeKey Generations::key_of(const LocalStream& stream) {
  return {stream.key.epoch, stream.key.origin, stream.coded->code};
}

void Generations::add(std::size_t first, std::uint64_t number, Part part) {
  Pending& one = pending_[{key_of(*part.stream), number}];
  const auto is_same = [&](const Part& other) { return other.stream->key == part.stream->key; };
  const bool agrees =
      one.parts.empty() || (one.first == first && one.parts.front().coded.code == part.coded.code);
  // Who gives one number to two generations, codes one in two ways, or sends twice, is not followed.
  if (!agrees || std::ranges::any_of(one.parts, is_same)) return;
  one.first = first;
  one.parts.push_back(std::move(part));
}

void Generations::pass(const LocalStream& stream, std::uint64_t number) {
  std::uint64_t& passed = passed_[stream.key];
  passed = std::max(passed, number);
}

std::uint64_t Generations::settled(const LocalStream& stream, std::uint64_t seen) const {
  const Solving first{key_of(stream), 0};
  const auto pending = pending_.lower_bound(first);
  if (pending != pending_.end() && pending->first.first == first.first)
    seen = std::min(seen, pending->first.second - 1);
  const auto solving = solving_.lower_bound(first);
  if (solving != solving_.end() && solving->first == first.first) seen = std::min(seen, solving->second - 1);
  return seen;
}

// So many streams of the sink have passed it without what they had that the others do not suffice: only the
// source can help.
bool Generations::is_hopeless(std::uint64_t number, const Pending& one, const PlaceOf& place_of) const {
  const LocalStream& some = *one.parts.front().stream;
  for (const PlanCode::Sink& sink : some.code->sinks) {
    if (std::ranges::count(sink.streams, some.key.stream) == 0) continue;
    std::size_t lost = 0;
    for (const StreamIndex index : sink.streams) {
      StreamKey key = some.key;
      key.stream = index;
      const auto passed = passed_.find(key);
      if (passed == passed_.end() || passed->second < number) continue;
      const auto block = plain_block(*some.session->streams[index.index()].coded);
      const std::size_t position = one.first + block.value_or(0);
      const auto is_exact = [](Place place) { return place == Place::kHere || place == Place::kComing; };
      const bool is_here = block ? position >= block_count_ || is_exact(place_of(position))
                                 : std::ranges::any_of(one.parts, [&](const Part& part) {
                                     return part.stream->key.stream == index;
                                   });
      if (!is_here) ++lost;
    }
    if (lost > some.code->redundancy) return true;
  }
  return false;
}

std::optional<Generations::Solution> Generations::solve(const PlaceOf& place_of) {
  for (auto next = pending_.begin(); next != pending_.end();) {
    Pending& one = next->second;
    bool is_any_missing = false;
    bool is_any_coming = false;
    for (std::size_t block = one.first; block < end_of(one); ++block) {
      const Place place = place_of(block);
      is_any_missing = is_any_missing || place == Place::kMissing;
      is_any_coming = is_any_coming || place == Place::kComing;
    }
    std::optional<Solution> solution;
    if (is_any_missing && !is_any_coming) solution = solution_of(one, next->first.second, place_of);
    const bool is_over = solution || !is_any_missing || is_hopeless(next->first.second, one, place_of);
    if (solution) solving_.insert(next->first);
    if (is_over) {
      next = pending_.erase(next);
    } else {
      ++next;
    }
    if (solution) return solution;
  }
  return std::nullopt;
}

void Generations::put_back(Solution solution) {
  const Solving name = name_of(solution);
  solving_.erase(name);
  Pending& one = pending_[name];
  one.first = solution.first;
  for (Part& part : solution.parts) one.parts.push_back(std::move(part));
}

// Over the unknown blocks alone, with as many sums as there are; the known ones are taken off. A rounded
// block counts as unknown, since others solved with it would lose digits; it stays as it is.
std::optional<Generations::Solution> Generations::solution_of(Pending& one, std::uint64_t number,
                                                              const PlaceOf& place_of) const {
  const PlanCode& code = *one.parts.front().coded.code;
  const Field& field = field_of(code.field);
  Solution solution{code.field, number, one.first, {}, {}, {}, {}};
  std::vector<std::size_t> unknown;
  std::vector<bool> is_missing;
  for (std::size_t block = one.first; block < end_of(one); ++block) {
    const Place place = place_of(block);
    if (place == Place::kMissing) solution.missing.push_back(block);
    if (place == Place::kHere) {
      solution.known.push_back(block);
    } else {
      unknown.push_back(block);
      is_missing.push_back(place == Place::kMissing);
    }
  }
  if (one.parts.size() < unknown.size() || solution.missing.empty()) return std::nullopt;
  RowSpace space(field);
  std::vector<Part*> chosen;
  CoefficientMatrix square = CoefficientMatrix::from_shape({unknown.size(), unknown.size()});
  for (Part& part : one.parts) {
    if (chosen.size() == unknown.size()) break;
    std::vector<double> row;
    for (const std::size_t block : unknown) row.push_back(part.row()[block - one.first]);
    if (!space.add(row)) continue;
    for (std::size_t k = 0; k < row.size(); ++k) square(chosen.size(), k) = row[k];
    chosen.push_back(&part);
  }
  if (chosen.size() < unknown.size()) return std::nullopt;
  const Result<CoefficientMatrix> inverse = field.inverse(square);
  if (!inverse.is_ok()) return std::nullopt;
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    if (!is_missing[i]) continue;
    // The inverse's row, and less what it makes of the known blocks.
    std::vector<double>& factors = solution.matrix.emplace_back();
    std::vector<double> whole(code.blocks, 0.0);
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      factors.push_back((*inverse)(i, k));
      field.add_multiple(whole, factors.back(), chosen[k]->row());
    }
    for (const std::size_t block : solution.known) {
      const double factor = whole[block - one.first];
      factors.push_back(code.field == FieldKind::kFloat32 ? -factor : factor);
    }
  }
  for (Part* const part : chosen) solution.parts.push_back(std::move(*part));
  return solution;
}

}  // namespace square
