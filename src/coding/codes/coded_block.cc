#include "square/coded_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "coding/fields/field.h"

namespace square {
namespace {

bool is_field(FieldKind kind) {
  return kind == FieldKind::kGf256 || kind == FieldKind::kGf65536 || kind == FieldKind::kFloat32;
}

// The one place that knows the header. All integers have their least byte first.
constexpr std::array<char, 4> kMagic{'S', 'Q', 'C', 'B'};
constexpr std::uint8_t kVersion = 1;
enum class Form : std::uint8_t { kSum = 0, kSystematic = 1 };
namespace at {
constexpr std::size_t kVersion = 4;
constexpr std::size_t kField = 5;
constexpr std::size_t kForm = 6;
constexpr std::size_t kBlocks = 8;
constexpr std::size_t kIndex = 12;  // of a systematic block
constexpr std::size_t kNumber = 16;
constexpr std::size_t kDataBytes = 24;
constexpr std::size_t kZero = 32;
constexpr std::size_t kChecksum = 36;  // of all that is before it and all that follows
constexpr std::size_t kEnd = 40;
}  // namespace at

template <typename Integer>
void put(std::byte* to, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}
template <typename Integer>
Integer get(const std::byte* from) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    value = static_cast<Integer>(value | static_cast<Integer>(static_cast<Integer>(from[i]) << (8 * i)));
  }
  return value;
}

void put_coefficient(std::byte* to, FieldKind field, double value) {
  switch (field) {
    case FieldKind::kGf256: return put(to, static_cast<std::uint8_t>(value));
    case FieldKind::kGf65536: return put(to, static_cast<std::uint16_t>(value));
    case FieldKind::kFloat32: return put(to, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  }
}
double get_coefficient(const std::byte* from, FieldKind field) {
  switch (field) {
    case FieldKind::kGf256: return get<std::uint8_t>(from);
    case FieldKind::kGf65536: return get<std::uint16_t>(from);
    case FieldKind::kFloat32: return std::bit_cast<float>(get<std::uint32_t>(from));
  }
  return 0;
}

std::uint32_t checksum(std::span<const std::byte> header, const Buffer& payload) {
  const std::uint32_t fixed = crc32c(header.first(at::kChecksum));
  return crc32c(payload, crc32c(header.subspan(at::kEnd), fixed));
}

Status truncated(std::uint64_t has, std::uint64_t needs) {
  return data_loss(fmt::format("a coded block was cut off: {} bytes of {}", has, needs));
}

Result<std::vector<std::byte>> first_bytes(const Buffer& bytes, std::size_t count) {
  if (bytes.size_bytes() < count) return truncated(bytes.size_bytes(), count);
  std::vector<std::byte> copy(count);
  bytes.range(0, count).copy_to(copy.data());
  return copy;
}

}  // namespace

std::uint64_t Generation::block_bytes() const {
  const std::uint64_t symbol = field_of(field).symbol_bytes();
  const std::uint64_t least = (data_bytes + blocks - 1) / blocks;
  return (least + symbol - 1) / symbol * symbol;
}

std::uint64_t Generation::bytes_of(std::uint32_t index) const {
  const std::uint64_t before = std::min(data_bytes, index * block_bytes());
  return std::min(data_bytes - before, block_bytes());
}

std::string to_string(const Generation& generation) {
  return fmt::format("generation {} ({} blocks of {} bytes over {})", generation.number, generation.blocks,
                     generation.block_bytes(), to_string(generation.field));
}

Status check_generation(const Generation& generation) {
  if (!is_field(generation.field)) {
    return invalid_argument(fmt::format("there is no field {}", static_cast<int>(generation.field)));
  }
  if (generation.blocks < 1 || generation.blocks > kMostGenerationBlocks) {
    return invalid_argument(
        fmt::format("a generation has 1 to {} blocks, not {}", kMostGenerationBlocks, generation.blocks));
  }
  if (generation.data_bytes > kMostGenerationBytes) {
    return invalid_argument(fmt::format("a generation has {} bytes at most, not {}", kMostGenerationBytes,
                                        generation.data_bytes));
  }
  if (generation.field == FieldKind::kFloat32 && generation.data_bytes % sizeof(float) != 0) {
    return invalid_argument(fmt::format("{} bytes are no whole float32 elements", generation.data_bytes));
  }
  return Status::ok();
}

std::optional<std::uint32_t> CodedBlock::systematic_index() const {
  std::optional<std::uint32_t> index;
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    if (coefficients[i] == 0) continue;
    if (index || coefficients[i] != 1) return std::nullopt;
    index = static_cast<std::uint32_t>(i);
  }
  return index;
}

Status check_coded_block(const CodedBlock& block) {
  const Generation& generation = block.generation;
  SQUARE_RETURN_IF_ERROR(check_generation(generation));
  const std::string who = "a coded block of " + to_string(generation);
  if (block.coefficients.size() != generation.blocks) {
    return invalid_argument(fmt::format("{} has {} coefficients", who, block.coefficients.size()));
  }
  const Field& field = field_of(generation.field);
  for (const double coefficient : block.coefficients) {
    if (!field.contains(coefficient)) {
      return invalid_argument(
          fmt::format("{} has the coefficient {}, no number of its field", who, coefficient));
    }
  }
  if (std::ranges::all_of(block.coefficients, [](double one) { return one == 0; })) {
    return invalid_argument(who + " has no coefficient but 0: there is nothing in it");
  }
  const std::optional<std::uint32_t> index = block.systematic_index();
  const std::uint64_t due = index ? generation.bytes_of(*index) : generation.block_bytes();
  if (block.payload.size_bytes() != due) {
    return invalid_argument(
        fmt::format("{} has a payload of {} bytes, not {}", who, block.payload.size_bytes(), due));
  }
  return Status::ok();
}

Buffer to_bytes(const CodedBlock& block) {
  const Generation& generation = block.generation;
  const std::optional<std::uint32_t> index = block.systematic_index();
  const std::size_t width = field_of(generation.field).symbol_bytes();
  std::vector<std::byte> header(at::kEnd + (index ? 0 : width * generation.blocks));
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  put(header.data() + at::kVersion, kVersion);
  put(header.data() + at::kField, static_cast<std::uint8_t>(generation.field));
  put(header.data() + at::kForm, static_cast<std::uint8_t>(index ? Form::kSystematic : Form::kSum));
  put(header.data() + at::kBlocks, generation.blocks);
  put(header.data() + at::kIndex, index.value_or(0));
  put(header.data() + at::kNumber, generation.number);
  put(header.data() + at::kDataBytes, generation.data_bytes);
  for (std::size_t i = 0; !index && i < generation.blocks; ++i) {
    put_coefficient(header.data() + at::kEnd + i * width, generation.field, block.coefficients[i]);
  }
  put(header.data() + at::kChecksum, checksum(header, block.payload));
  Buffer bytes = Buffer::copy_of(header);
  for (const Buffer::Slice& slice : block.payload.slices()) bytes.append(slice);
  return bytes;
}

Result<CodedBlock> parse_coded_block(const Buffer& bytes) {
  SQUARE_ASSIGN_OR_RETURN(std::vector<std::byte> header, first_bytes(bytes, at::kEnd));
  const std::byte* const from = header.data();
  if (std::memcmp(from, kMagic.data(), kMagic.size()) != 0) {
    return invalid_argument("these bytes are no coded block: they do not begin with \"SQCB\"");
  }
  if (const auto version = get<std::uint8_t>(from + at::kVersion); version != kVersion) {
    return invalid_argument(fmt::format("a coded block of version {}, where {} is known", version, kVersion));
  }
  CodedBlock block;
  block.generation = {get<std::uint64_t>(from + at::kNumber),
                      static_cast<FieldKind>(get<std::uint8_t>(from + at::kField)),
                      get<std::uint32_t>(from + at::kBlocks), get<std::uint64_t>(from + at::kDataBytes)};
  SQUARE_RETURN_IF_ERROR(check_generation(block.generation).with_context("the header of a coded block"));
  const auto form = get<std::uint8_t>(from + at::kForm);
  const auto index = get<std::uint32_t>(from + at::kIndex);
  const bool is_sum = form == static_cast<std::uint8_t>(Form::kSum);
  if ((!is_sum && form != static_cast<std::uint8_t>(Form::kSystematic)) ||
      from[at::kForm + 1] != std::byte{0} || get<std::uint32_t>(from + at::kZero) != 0 ||
      index >= (is_sum ? 1 : block.generation.blocks)) {
    return invalid_argument("the header of a coded block makes no sense");
  }
  const std::size_t width = field_of(block.generation.field).symbol_bytes();
  const std::size_t header_bytes = at::kEnd + (is_sum ? width * block.generation.blocks : 0);
  const std::uint64_t payload_bytes =
      is_sum ? block.generation.block_bytes() : block.generation.bytes_of(index);
  if (bytes.size_bytes() < header_bytes + payload_bytes) {
    return truncated(bytes.size_bytes(), header_bytes + payload_bytes);
  }
  if (bytes.size_bytes() > header_bytes + payload_bytes) {
    return data_loss(
        fmt::format("{} bytes follow a coded block", bytes.size_bytes() - header_bytes - payload_bytes));
  }
  SQUARE_ASSIGN_OR_RETURN(header, first_bytes(bytes, header_bytes));
  block.payload = bytes.suffix(header_bytes);
  if (checksum(header, block.payload) != get<std::uint32_t>(header.data() + at::kChecksum)) {
    return data_loss("a coded block was changed on its way: its checksum is another one");
  }
  block.coefficients.resize(block.generation.blocks);
  if (!is_sum) block.coefficients[index] = 1;
  for (std::size_t i = 0; is_sum && i < block.coefficients.size(); ++i) {
    block.coefficients[i] = get_coefficient(header.data() + at::kEnd + i * width, block.generation.field);
  }
  SQUARE_RETURN_IF_ERROR(check_coded_block(block));
  return block;
}

}  // namespace square
