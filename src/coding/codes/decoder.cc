#include "square/decoder.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <vector>

#include "base/check.h"
#include "coding/codes/halves.h"
#include "coding/codes/payload.h"
#include "coding/codes/row_space.h"
#include "coding/fields/field.h"

namespace square {

struct Decoder::State {
  State(const Generation& of, std::span<std::byte> to, ElementType type)
      : generation(of), data(to), field(field_of(of.field)), rows(field), has(of.blocks) {
    if (of.field != FieldKind::kFloat32 || !is_half(type)) return;
    elements = type;
    halves = to;
    wide.resize(of.data_bytes);
    data = wide;
  }

  Generation generation;
  std::span<std::byte> data;
  // What is solved as float32 and becomes halves at the end.
  ElementType elements = ElementType::kFloat32;
  std::span<std::byte> halves;
  std::vector<std::byte> wide;
  const Field& field;
  RowSpace rows;
  // By index: is the block in its place? Those that the data does not fill are kept padded as well.
  std::vector<bool> has;
  std::map<std::uint32_t, Buffer> padded;
  std::vector<CodedBlock> sums;  // with whole payloads
  // Once there are enough: a row for each of missing(), a column for each of sources().
  CoefficientMatrix solution;

  [[nodiscard]] std::byte* place(std::uint32_t index) const {
    return data.data() + index * generation.block_bytes();
  }
  [[nodiscard]] bool is_full(std::uint32_t index) const {
    return generation.bytes_of(index) == generation.block_bytes();
  }
  void keep(const CodedBlock& block, std::uint32_t index);
  [[nodiscard]] std::vector<std::uint32_t> missing() const;
  // Sets `solution`; false where the field refuses to invert.
  bool solve();
  void write_missing() const;
  [[nodiscard]] std::vector<const std::byte*> sources() const;
};

void Decoder::State::keep(const CodedBlock& block, std::uint32_t index) {
  if (block.payload.size_bytes() > 0) block.payload.copy_to(place(index));
  if (!is_full(index)) padded.emplace(index, whole_payload(block));
}

std::vector<std::uint32_t> Decoder::State::missing() const {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < generation.blocks; ++i) {
    if (!has[i]) indices.push_back(i);
  }
  return indices;
}

bool Decoder::State::solve() {
  const std::size_t size = generation.blocks;
  CoefficientMatrix came = xt::zeros<double>({size, size});
  std::size_t row = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    if (has[i]) came(row++, i) = 1;
  }
  for (const CodedBlock& sum : sums) {
    for (std::uint32_t i = 0; i < size; ++i) came(row, i) = sum.coefficients[i];
    ++row;
  }
  const Result<CoefficientMatrix> inverse = field.inverse(came);
  if (!inverse.is_ok()) return false;
  const std::vector<std::uint32_t> wanted = missing();
  solution = CoefficientMatrix::from_shape({wanted.size(), size});
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (std::size_t j = 0; j < size; ++j) solution(i, j) = (*inverse)(wanted[i], j);
  }
  return true;
}

std::vector<const std::byte*> Decoder::State::sources() const {
  std::vector<const std::byte*> blocks;
  for (std::uint32_t i = 0; i < generation.blocks; ++i) {
    if (has[i]) blocks.push_back(is_full(i) ? place(i) : first_byte(padded.at(i)));
  }
  for (const CodedBlock& sum : sums) blocks.push_back(first_byte(sum.payload));
  return blocks;
}

void Decoder::State::write_missing() const {
  std::vector<std::byte*> places;
  std::map<std::uint32_t, NewPayload> short_ones;
  const std::uint64_t block_bytes = generation.block_bytes();
  for (const std::uint32_t index : missing()) {
    if (is_full(index)) {
      places.push_back(place(index));
    } else {
      places.push_back(short_ones.emplace(index, NewPayload(block_bytes)).first->second.data);
    }
  }
  if (places.empty()) return;
  field.combine(solution, sources(), places, block_bytes);
  for (const auto& [index, payload] : short_ones) {
    const std::uint64_t size_bytes = generation.bytes_of(index);
    if (size_bytes > 0) std::memcpy(place(index), payload.data, size_bytes);
  }
}

Result<Decoder> Decoder::make(const Generation& generation, std::span<std::byte> data, ElementType elements) {
  SQUARE_RETURN_IF_ERROR(check_generation(generation));
  const bool are_wider = generation.field == FieldKind::kFloat32 && is_half(elements);
  if (data.size() * (are_wider ? 2 : 1) != generation.data_bytes) {
    return invalid_argument(fmt::format("{} has {} bytes of data{}, and there is room for {}",
                                        to_string(generation), generation.data_bytes,
                                        are_wider ? " as float32" : "", data.size()));
  }
  return Decoder(std::make_unique<State>(generation, data, elements));
}

Decoder::Decoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

Result<bool> Decoder::add(const CodedBlock& block) {
  SQUARE_RETURN_IF_ERROR(check_block_of(state_->generation, block));
  if (!state_->rows.add(block.coefficients)) return false;
  const std::optional<std::uint32_t> index = block.systematic_index();
  if (!index) {
    state_->sums.push_back({block.generation, block.coefficients, whole_payload(block)});
  } else {
    state_->has[*index] = true;
  }
  if (rank() == state_->generation.blocks && !state_->solve()) {
    // Floats that would lose too many digits: another block may do better than this one.
    state_->rows.forget_last();
    if (!index) state_->sums.pop_back();
    if (index) state_->has[*index] = false;
    return false;
  }
  if (index) state_->keep(block, *index);
  return true;
}

std::uint32_t Decoder::rank() const { return static_cast<std::uint32_t>(state_->rows.rank()); }

Status Decoder::finish() {
  if (rank() < state_->generation.blocks) {
    return failed_precondition(
        fmt::format("not yet decodable: rank {} of {}", rank(), state_->generation.blocks));
  }
  state_->write_missing();
  if (!state_->halves.empty()) narrow(state_->elements, state_->wide, state_->halves);
  return Status::ok();
}

}  // namespace square
