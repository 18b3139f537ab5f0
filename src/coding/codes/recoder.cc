#include "square/recoder.h"

#include <fmt/format.h>

#include <vector>

#include "base/check.h"
#include "coding/codes/payload.h"
#include "coding/codes/redundancy.h"
#include "coding/codes/row_space.h"
#include "coding/fields/field.h"

namespace square {
namespace {

Status check_all(std::span<const CodedBlock> blocks, std::span<const double> coefficients) {
  if (blocks.empty()) return invalid_argument("there are no blocks to recode");
  if (blocks.size() != coefficients.size()) {
    return invalid_argument(fmt::format("{} coefficients for {} blocks", coefficients.size(), blocks.size()));
  }
  for (const CodedBlock& block : blocks) {
    SQUARE_RETURN_IF_ERROR(check_coded_block(block));
    if (block.generation != blocks.front().generation) {
      return invalid_argument("blocks of " + to_string(blocks.front().generation) + " and of " +
                              to_string(block.generation) + " cannot be mixed");
    }
  }
  const Field& field = field_of(blocks.front().generation.field);
  for (const double coefficient : coefficients) {
    if (field.contains(coefficient)) continue;
    return invalid_argument(fmt::format("{} is no number of {}", coefficient, to_string(field.kind())));
  }
  return Status::ok();
}

}  // namespace

Result<CodedBlock> recode(std::span<const CodedBlock> blocks, std::span<const double> coefficients) {
  SQUARE_RETURN_IF_ERROR(check_all(blocks, coefficients));
  const Generation& generation = blocks.front().generation;
  const Field& field = field_of(generation.field);
  CodedBlock made{generation, std::vector<double>(generation.blocks), {}};
  CoefficientMatrix row = CoefficientMatrix::from_shape({1, blocks.size()});
  std::vector<Buffer> payloads;
  std::vector<const std::byte*> sources;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    field.add_multiple(made.coefficients, coefficients[i], blocks[i].coefficients);
    row(0, i) = coefficients[i];
    payloads.push_back(whole_payload(blocks[i]));
    sources.push_back(first_byte(payloads.back()));
  }
  NewPayload sum(generation.block_bytes());
  field.combine(row, sources, {&sum.data, 1}, generation.block_bytes());
  const auto index = made.systematic_index();
  made.payload = index ? sum.buffer.range(0, generation.bytes_of(*index)) : sum.buffer;
  SQUARE_RETURN_IF_ERROR(check_coded_block(made));
  return made;
}

struct Recoder::State {
  explicit State(const Generation& of) : generation(of), rows(field_of(of.field)) {}
  Generation generation;
  RowSpace rows;
  std::vector<CodedBlock> kept;
  std::uint64_t made = 0;
};

Result<Recoder> Recoder::make(const Generation& generation) {
  SQUARE_RETURN_IF_ERROR(check_generation(generation));
  return Recoder(std::make_unique<State>(generation));
}

Recoder::Recoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Recoder::~Recoder() = default;
Recoder::Recoder(Recoder&&) noexcept = default;
Recoder& Recoder::operator=(Recoder&&) noexcept = default;

Result<bool> Recoder::add(const CodedBlock& block) {
  SQUARE_RETURN_IF_ERROR(check_block_of(state_->generation, block));
  if (!state_->rows.add(block.coefficients)) return false;
  state_->kept.push_back(block);
  return true;
}

std::uint32_t Recoder::rank() const { return static_cast<std::uint32_t>(state_->kept.size()); }

Result<CodedBlock> Recoder::coded(std::span<const double> coefficients) const {
  return recode(state_->kept, coefficients);
}

Result<CodedBlock> Recoder::next(std::uint64_t seed) {
  if (state_->kept.empty()) {
    return failed_precondition("there is no block of " + to_string(state_->generation) + " to mix yet");
  }
  return coded(random_coefficients(state_->generation, state_->kept.size(), seed + state_->made++));
}

}  // namespace square
