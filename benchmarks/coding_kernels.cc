// The loops of codes against memcpy and ISA-L, on one core.
//
//     build/dev/benchmarks/coding_kernels [--mib 1] [--rounds 99] [--json]
//
// Rates are bytes of the blocks that are read per second, the median of the rounds, which take turns. `--mib`
// is the size of a block. ISA-L encodes whole blocks, and decodes in tiles of 8 KiB, by which it is faster
// than without.
#include <fmt/format.h>
#include <isa-l/erasure_code.h>

#include <cstring>
#include <random>

#include "coding/fields/float_field.h"
#include "coding/fields/galois_field.h"
#include "loop_rounds.h"

namespace {

using namespace square;
using namespace square::benchmarks;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kIsalTile = std::size_t{8} << 10U;

class Blocks {
 public:
  // Normal numbers: floats are to be coded too.
  Blocks(std::size_t count, std::size_t bytes) : memory_(count * bytes / sizeof(float) + kPage) {
    std::mt19937_64 random(7);
    for (float& value : memory_) value = static_cast<float>(random() % 2000) / 1000 - 1;
    auto* first = reinterpret_cast<std::byte*>(memory_.data());
    first += kPage - reinterpret_cast<std::uintptr_t>(first) % kPage;
    for (std::size_t i = 0; i < count; ++i) starts_.push_back(first + i * bytes);
  }
  std::span<std::byte* const> starts() { return starts_; }
  std::vector<const std::byte*> sources() { return {starts_.begin(), starts_.end()}; }

 private:
  std::vector<float> memory_;
  std::vector<std::byte*> starts_;
};

// `rows` sums of `columns` blocks.
class Contest {
 public:
  Contest(std::size_t rows, std::size_t columns, std::size_t bytes)
      : bytes_(bytes),
        in_(columns, bytes),
        out_(rows, bytes),
        sources_(in_.sources()),
        matrix_(CoefficientMatrix::from_shape({rows, columns})),
        tables_(32 * rows * columns) {
    std::mt19937_64 random(7);
    std::vector<unsigned char> coefficients;
    for (double& coefficient : matrix_) {
      coefficients.push_back(static_cast<unsigned char>(2 + random() % 254));
      coefficient = coefficients.back();
    }
    ec_init_tables(static_cast<int>(columns), static_cast<int>(rows), coefficients.data(), tables_.data());
  }

  std::vector<Loop> loops() {
    std::vector<Loop> all{{"memcpy", [this] { copy(); }}, {"ISA-L", [this] { by_isal(); }}};
    for (const InstructionSet set : available_instruction_sets()) {
      if (set == InstructionSet::kPortable) continue;
      all.push_back(
          {fmt::format("gf256 {}", to_string(set)), [this, set] { by(GaloisField<std::uint8_t>(set)); }});
    }
    all.push_back({"gf65536", [this] { by(field_of(FieldKind::kGf65536)); }});
    if (matrix_.shape(0) == 1) all.push_back({"float32", [this] { by(field_of(FieldKind::kFloat32)); }});
    return all;
  }

  [[nodiscard]] double read_bytes() const { return static_cast<double>(bytes_ * sources_.size()); }

 private:
  void copy() {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      std::memcpy(out_.starts()[i % out_.starts().size()], sources_[i], bytes_);
    }
  }
  void by(const Field& field) { field.combine(matrix_, sources_, out_.starts(), bytes_); }
  void by_isal() {
    const std::size_t tile = matrix_.shape(0) == 1 ? bytes_ : kIsalTile;
    std::vector<unsigned char*> in(sources_.size());
    std::vector<unsigned char*> out(out_.starts().size());
    for (std::size_t at = 0; at < bytes_; at += tile) {
      for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = reinterpret_cast<unsigned char*>(in_.starts()[i] + at);
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = reinterpret_cast<unsigned char*>(out_.starts()[i] + at);
      ec_encode_data(static_cast<int>(std::min(tile, bytes_ - at)), static_cast<int>(in.size()),
                     static_cast<int>(out.size()), tables_.data(), in.data(), out.data());
    }
  }

  std::size_t bytes_;
  Blocks in_;
  Blocks out_;
  std::vector<const std::byte*> sources_;
  CoefficientMatrix matrix_;
  std::vector<unsigned char> tables_;
};

struct Case {
  const char* name;
  std::size_t rows;
  std::size_t columns;
};
constexpr Case kCases[] = {
    {"encode 1 of 2", 1, 2},     {"encode 1 of 4", 1, 4},   {"encode 1 of 8", 1, 8},
    {"encode 1 of 16", 1, 16},   {"encode 1 of 32", 1, 32}, {"decode 2 of 2", 2, 2},
    {"decode 4 of 4", 4, 4},     {"decode 8 of 8", 8, 8},   {"decode 16 of 16", 16, 16},
    {"decode 32 of 32", 32, 32}, {"decode 2 of 16", 2, 16},
};

std::string report(const Case& one, const std::vector<Loop>& loops, double bytes, bool json) {
  std::string text;
  for (const Loop& loop : loops) {
    const double rate = bytes / loop.median() / 1e9;
    const double of_memcpy = loops[0].median() / loop.median();
    const double of_isal = loops[1].median() / loop.median();
    if (json) {
      text += fmt::format(
          R"({}{{"case": "{}", "loop": "{}", "gigabytes_per_second": {:.3f}, "of_memcpy": {:.3f}, "of_isal": {:.3f}}})",
          text.empty() ? "" : ", ", one.name, loop.name, rate, of_memcpy, of_isal);
    } else {
      text += fmt::format("{:<16} {:<12} {:6.1f} GB/s {:6.2f} of memcpy {:6.2f} of ISA-L\n", one.name,
                          loop.name, rate, of_memcpy, of_isal);
    }
  }
  return text;
}

}  // namespace

int main(int argument_count, char** arguments) {
  Options options{1, 99, false};
  if (!read_options(argument_count, arguments, options)) {
    fmt::print(stderr, "usage: {} [--mib 1] [--rounds 99] [--json]\n", arguments[0]);
    return 2;
  }
  std::string rows;
  for (const Case& one : kCases) {
    Contest contest(one.rows, one.columns, options.mib << 20U);
    std::vector<Loop> loops = contest.loops();
    take_turns(loops, std::max<std::size_t>(3, options.rounds / one.rows));
    const std::string text = report(one, loops, contest.read_bytes(), options.json);
    if (options.json) rows += (rows.empty() ? "" : ", ") + text;
    if (!options.json) fmt::print("{}", text);
    std::fflush(stdout);
  }
  if (options.json)
    fmt::print("{{\"mib\": {}, \"rounds\": {}, \"loops\": [{}]}}\n", options.mib, options.rounds, rows);
  return 0;
}
