// The loops of compression against memcpy of the same float32 elements, on one core.
//
//     build/dev/benchmarks/compression_kernels [--mib 64] [--rounds 9] [--json]
//
// Rates are bytes of elements per second, the median of the rounds, which take turns. Exit code 1 if one
// that every element passes through is under kLeastOfMemcpy.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "coding/compression/int8_blocks.h"
#include "coding/compression/kernels.h"
#include "coding/compression/top_k.h"
#include "coding/instruction_set.h"
#include "loop_rounds.h"

namespace {

using namespace square::benchmarks;
using namespace square::compression;
using square::fastest_instruction_set;
using square::InstructionSet;

// A gigabyte a second is a link of 8 Gbit/s: loops that are a tenth of memcpy do not hold up slow links.
constexpr double kLeastOfMemcpy = 0.10;
constexpr std::size_t kBlock = 256;
constexpr double kFraction = 0.01;

class Contest {
 public:
  explicit Contest(std::size_t count)
      : in_(count),
        out_(count),
        layout_{count, kBlock},
        halves_(2 * count),
        encoded_(layout_.encoded_bytes()),
        chosen_(top_k_count(count, kFraction) * kTopKBytes) {
    std::mt19937_64 random(7);
    std::normal_distribution<float> draw;
    for (float& value : in_) value = draw(random);
  }

  std::vector<Loop> loops() {
    const Kernels& loops = kernels();
    return {
        {"memcpy", [this] { std::memcpy(out_.data(), in_.data(), 4 * in_.size()); }},
        {"bf16 encode", [&, this] { loops.to_bfloat16(halves_.data(), in(), in_.size()); }},
        {"bf16 decode", [&, this] { loops.from_bfloat16(out().data(), halves_.data(), in_.size()); }},
        {"int8 encode", [this] { encode_int8(encoded_, std::as_bytes(std::span(in_)), layout_); }},
        {"int8 decode", [this] { decode_int8(out(), encoded_, layout_); }},
        {"int8 add", [this] { add_int8(out(), encoded_, layout_); }},
        {"int8 keep the rest", [this] { subtract_int8(out(), encoded_, layout_); }},
        {"top-k encode", [this] { encode_top_k(chosen_, std::as_bytes(std::span(in_))); }},
        {"top-k add", [this] { static_cast<void>(add_top_k(out(), chosen_)); }},
        {"top-k keep the rest", [this] { clear_top_k(out(), chosen_); }},
    };
  }

 private:
  [[nodiscard]] const std::byte* in() const { return std::as_bytes(std::span(in_)).data(); }
  std::span<std::byte> out() { return std::as_writable_bytes(std::span(out_)); }

  std::vector<float> in_;
  std::vector<float> out_;
  Int8Layout layout_;
  std::vector<std::byte> halves_;
  std::vector<std::byte> encoded_;
  std::vector<std::byte> chosen_;
};

void print(const std::vector<Loop>& loops, const Options& options, double bytes) {
  const double memcpy_seconds = loops.front().median();
  std::string rows;
  for (const Loop& loop : loops) {
    const double rate = bytes / loop.median() / 1e9;
    const double part = memcpy_seconds / loop.median();
    if (options.json) {
      rows += fmt::format("{}{{\"loop\": \"{}\", \"gigabytes_per_second\": {:.3f}, \"of_memcpy\": {:.4f}}}",
                          rows.empty() ? "" : ", ", loop.name, rate, part);
    } else {
      fmt::print("{:<20} {:7.2f} GB/s {:6.2f} of memcpy\n", loop.name, rate, part);
    }
  }
  if (options.json) {
    fmt::print("{{\"mib\": {}, \"rounds\": {}, \"avx2\": {}, \"loops\": [{}]}}\n", options.mib,
               options.rounds, fastest_instruction_set() != InstructionSet::kPortable, rows);
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  Options options;
  if (!read_options(argument_count, arguments, options)) {
    fmt::print(stderr, "usage: {} [--mib 64] [--rounds 9] [--json]\n", arguments[0]);
    return 2;
  }
  if (!options.json) {
    fmt::print("{} --mib {} --rounds {}: normal numbers, one core, {}; int8 in blocks of {}, top-k of {}\n",
               arguments[0], options.mib, options.rounds, to_string(fastest_instruction_set()), kBlock,
               kFraction);
  }
  const std::size_t count = (options.mib << 20U) / sizeof(float);
  Contest contest(count);
  std::vector<Loop> loops = contest.loops();
  take_turns(loops, options.rounds);
  print(loops, options, static_cast<double>(count * sizeof(float)));
  const bool all_fast = std::ranges::all_of(
      loops, [&](const Loop& loop) { return loops.front().median() / loop.median() >= kLeastOfMemcpy; });
  return all_fast ? 0 : 1;
}
