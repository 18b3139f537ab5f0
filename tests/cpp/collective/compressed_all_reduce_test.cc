// Compressed all-reduces over simulated links with delay and loss: the same bits everywhere, errors
// within their bounds, and nothing lost where there is error feedback. SQUARE_SEED reruns them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "collective/simulated_group.h"

using namespace square;
using namespace square::test;

namespace {

using Floats = std::vector<float>;
constexpr Duration kTimeout = std::chrono::seconds(300);
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::uint64_t seed() {
  const char* given = std::getenv("SQUARE_SEED");
  return given != nullptr ? std::stoull(given) : 40'961;
}

// One group, rank r on node r, but for the last of three or more, which shares a node.
class Group {
 public:
  explicit Group(std::size_t ranks, std::uint64_t from_seed)
      : overlay_(from_seed, std::max<std::size_t>(2, nodes_of(ranks))),
        controller_(overlay_, *full_mesh(names(std::max<std::size_t>(2, nodes_of(ranks))), {50e6, {}, 0.0})) {
    overlay_.simulation.set_default_conditions(
        {std::chrono::milliseconds(2), std::chrono::milliseconds(2), 0.005});
    GroupSpec spec{"compressed", "alice", {}, {}};
    for (std::size_t rank = 0; rank < ranks; ++rank) spec.nodes.push_back(node_name(place_of(rank, ranks)));
    for (std::size_t node = 0; node < nodes_of(ranks); ++node)
      hosts_.push_back(std::make_unique<SimulatedHost>(controller_, overlay_.node(node)));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      auto made = Communicator::create(*hosts_[place_of(rank, ranks)], spec, Rank(rank), kTimeout);
      REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
      members_.push_back(*std::move(made));
    }
  }

  using Start = std::function<Result<std::shared_ptr<Work>>(Communicator&, std::size_t rank)>;
  std::vector<std::shared_ptr<Work>> begin(const Start& start) {
    std::vector<std::shared_ptr<Work>> works;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      auto work = start(*members_[rank], rank);
      REQUIRE_MESSAGE(work.is_ok(), work.status().to_string());
      works.push_back(*std::move(work));
    }
    return works;
  }
  void finish(const std::vector<std::shared_ptr<Work>>& works) {
    const auto are_over = [&] {
      return std::ranges::all_of(works, [](const auto& work) { return work->is_done(); });
    };
    REQUIRE(overlay_.run(are_over));
  }

 private:
  static std::size_t nodes_of(std::size_t ranks) { return ranks > 2 ? ranks - 1 : ranks; }
  static std::size_t place_of(std::size_t rank, std::size_t ranks) {
    return std::min(rank, nodes_of(ranks) - 1);
  }
  static std::vector<std::string> names(std::size_t count) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(node_name(i));
    return all;
  }

  Overlay overlay_;
  SimulatedController controller_;
  std::vector<std::unique_ptr<SimulatedHost>> hosts_;
  std::vector<std::unique_ptr<Communicator>> members_;
};

// One call on all members.
struct Call {
  std::vector<Floats> given;  // by rank
  ReduceOp op = ReduceOp::kSum;
  Compression compression;
  bool in_place = false;
  std::vector<Floats> residuals{};  // by rank; none without error feedback
  std::vector<Floats> got{};
  std::vector<CompressionReport> reports{};

  void run(Group& group) {
    got = given;
    if (!in_place) std::ranges::for_each(got, [](Floats& floats) { std::ranges::fill(floats, kNan); });
    if (compression.error_feedback && residuals.empty())
      residuals.assign(given.size(), Floats(given.front().size()));
    const auto works = group.begin([&](Communicator& member, std::size_t rank) {
      const auto input = std::as_bytes(std::span(in_place ? got[rank] : given[rank]));
      return member.compressed_all_reduce_async(
          input, std::as_writable_bytes(std::span(got[rank])), {ElementType::kFloat32, op}, compression,
          residuals.empty() ? std::span<float>{} : std::span(residuals[rank]), kTimeout);
    });
    group.finish(works);
    reports.clear();
    for (const auto& work : works) {
      CHECK_MESSAGE(work->wait().is_ok(), work->wait().to_string());
      REQUIRE(work->compression_report());
      reports.push_back(*work->compression_report());
    }
  }
  [[nodiscard]] bool is_same_everywhere() const {
    return std::ranges::all_of(got, [&](const Floats& floats) {
      return floats.size() == got.front().size() &&
             (floats.empty() || std::memcmp(floats.data(), got.front().data(), 4 * floats.size()) == 0);
    });
  }
  // What would be got without compression, in float64.
  [[nodiscard]] std::vector<double> exact() const {
    std::vector<double> sums(given.front().size());
    for (const Floats& floats : given) {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += double{floats[i]};
    }
    if (op == ReduceOp::kAverage)
      for (double& sum : sums) sum /= static_cast<double>(given.size());
    return sums;
  }
  // Of the magnitudes: what is rounded may cancel out.
  [[nodiscard]] std::vector<double> magnitudes() const {
    Call positive = *this;
    for (Floats& floats : positive.given) {
      for (float& value : floats) value = std::abs(value);
    }
    return positive.exact();
  }
};

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double distance(const Floats& got, const std::vector<double>& wanted) {
  std::vector<double> left = wanted;
  for (std::size_t i = 0; i < left.size(); ++i) left[i] -= double{got[i]};
  return norm(left);
}

Floats normal(std::mt19937_64& random, std::size_t count) {
  std::normal_distribution<float> draw;
  Floats floats(count);
  for (float& value : floats) value = draw(random);
  return floats;
}

std::vector<Floats> inputs(std::mt19937_64& random, std::size_t ranks, std::size_t count) {
  std::vector<Floats> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) all.push_back(normal(random, count));
  return all;
}

const std::vector<Compression>& kinds() {
  static const std::vector<Compression> all{Compression::bfloat16(), Compression::int8(64),
                                            Compression::int8(256, true), Compression::top_k(0.2, false),
                                            Compression::top_k(0.05)};
  return all;
}

}  // namespace

TEST_CASE("all ranks get the same bits, near the sum") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (std::size_t ranks = 1; ranks <= 5; ++ranks) {
    Group group(ranks, random());
    for (const Compression& compression : kinds()) {
      for (const std::size_t count : {0, 1, 300, 5'003}) {
        CAPTURE(ranks);
        CAPTURE(to_string(compression));
        CAPTURE(count);
        Call call{inputs(random, ranks, count), random() % 2 == 0 ? ReduceOp::kSum : ReduceOp::kAverage,
                  compression, random() % 2 == 0};
        call.run(group);
        CHECK(call.is_same_everywhere());
        const std::vector<double> wanted = call.exact();
        const double error = distance(call.got.front(), wanted);
        const double scale = norm(call.magnitudes());
        // Rounded at the sources, in sums underway and at the end; half a step in 127 of about three
        // standard deviations. What top-k leaves out, the reports say.
        if (compression.kind == CompressionKind::kBfloat16) CHECK(error <= 0.01 * scale);
        if (compression.kind == CompressionKind::kInt8) CHECK(error <= 0.02 * scale);
        if (compression.kind == CompressionKind::kTopK && count == 1) CHECK(error <= 1e-6 * scale);
        for (const CompressionReport& report : call.reports) {
          CHECK(report.calls == 1);
          CHECK(report.bytes_before == 4 * count);
          if (count > 1'000) CHECK(report.ratio() > 1.9);
          if (count > 1'000 && compression.kind == CompressionKind::kInt8) {
            CHECK(report.ratio() > 3.7);
            CHECK(report.relative_error() == doctest::Approx(0.0075).epsilon(0.4));
          }
          if (count > 1'000 && compression == Compression::top_k(0.05)) {
            CHECK(report.ratio() == doctest::Approx(10.0).epsilon(0.02));
            CHECK(report.relative_error() > 0.5);  // of normal numbers, which are all alike
          }
        }
      }
    }
  }
}

TEST_CASE("with error feedback, what was got and what is kept make up what was given") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  constexpr std::size_t kRanks = 3;
  constexpr std::size_t kCount = 1'000;
  constexpr int kSteps = 20;
  for (const Compression& compression : {Compression::int8(64, true), Compression::top_k(0.1)}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
      CAPTURE(to_string(compression));
      Group group(kRanks, random());
      std::vector<double> wanted(kCount);
      std::vector<double> got(kCount);
      const double divisor = op == ReduceOp::kAverage ? kRanks : 1.0;
      Call call{inputs(random, kRanks, kCount), op, compression};
      double first = 0;
      for (int step = 1; step <= kSteps; ++step) {
        call.run(group);
        const std::vector<double> exact = call.exact();
        std::vector<double> left(kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
          wanted[i] += exact[i];
          got[i] += double{call.got.front()[i]};
          left[i] = wanted[i] - got[i];
          // Nothing is lost: what is missing is in the residuals, up to the rounding of float32.
          for (const Floats& residual : call.residuals) left[i] -= double{residual[i]} / divisor;
        }
        CHECK(norm(left) <= 1e-5 * norm(wanted));
        std::vector<double> missing(kCount);
        for (std::size_t i = 0; i < kCount; ++i) missing[i] = wanted[i] - got[i];
        if (step == 1) first = norm(missing) / norm(wanted);
      }
      // So the mean over the steps converges to the mean of the uncompressed.
      std::vector<double> missing(kCount);
      for (std::size_t i = 0; i < kCount; ++i) missing[i] = wanted[i] - got[i];
      CHECK(norm(missing) / norm(wanted) < 0.5 * first);
    }
  }
}

TEST_CASE("an infinity or a NaN is seen by all, and not kept") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Group group(3, random());
  for (const Compression& compression : kinds()) {
    for (const float odd : {kNan, std::numeric_limits<float>::infinity()}) {
      CAPTURE(to_string(compression));
      Call call{inputs(random, 3, 1'000), ReduceOp::kSum, compression};
      call.given[1][500] = odd;
      call.run(group);
      CHECK(call.is_same_everywhere());
      CHECK_FALSE(std::isfinite(call.got.front()[500]));
      CHECK(std::isfinite(call.got.front()[0]));
      CHECK(std::isnan(call.reports[1].relative_error()));
      CHECK(std::isfinite(call.reports[0].relative_error()));
      for (const Floats& residual : call.residuals)
        CHECK(std::ranges::all_of(residual, [](float value) { return std::isfinite(value); }));
    }
  }
}

TEST_CASE("many calls, of all kinds, beside others") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  constexpr std::size_t kRanks = 3;
  Group group(kRanks, random());
  const std::vector<Floats> given = inputs(random, kRanks, 2'000);
  std::vector<Floats> plain = given;
  std::vector<std::vector<Floats>> got(kinds().size(), given);
  std::vector<std::vector<Floats>> residuals(kinds().size(), std::vector<Floats>(kRanks, Floats(2'000)));
  std::vector<std::shared_ptr<Work>> works;
  for (std::size_t k = 0; k < kinds().size(); ++k) {
    const auto begun = group.begin([&](Communicator& member, std::size_t rank) {
      const auto residual = kinds()[k].error_feedback ? std::span(residuals[k][rank]) : std::span<float>{};
      return member.compressed_all_reduce_async(
          std::as_bytes(std::span(given[rank])), std::as_writable_bytes(std::span(got[k][rank])),
          {ElementType::kFloat32, ReduceOp::kSum}, kinds()[k], residual, kTimeout);
    });
    works.insert(works.end(), begun.begin(), begun.end());
  }
  const auto others = group.begin([&](Communicator& member, std::size_t rank) {
    const auto floats = std::as_writable_bytes(std::span(plain[rank]));
    return member.all_reduce_async(floats, floats, {ElementType::kFloat32, ReduceOp::kSum}, kTimeout);
  });
  works.insert(works.end(), others.begin(), others.end());
  group.finish(works);
  for (const auto& work : works) CHECK_MESSAGE(work->wait().is_ok(), work->wait().to_string());
  for (const std::vector<Floats>& results : got)
    CHECK(std::ranges::all_of(results, [&](const Floats& floats) { return floats == results.front(); }));
  CHECK(distance(got.front().front(), std::vector<double>(plain.front().begin(), plain.front().end())) < 1.0);
}

TEST_CASE("members that call otherwise are told what each called") {
  struct Case {
    Compression first;
    Compression second;
    std::size_t second_count;
    ReduceOp second_op;
    const char* words;
  };
  const std::vector<Case> cases{
      {Compression::int8(), Compression::int8(), 100, ReduceOp::kAverage,
       "400 bytes of float32 (sum) as int8:256"},
      {Compression::top_k(0.1, false), Compression::top_k(0.1, false), 100, ReduceOp::kAverage,
       "400 bytes of float32 (average) as top-k:0.1"},
      {Compression::top_k(0.1, false), Compression::top_k(0.1, false), 99, ReduceOp::kSum,
       "396 bytes of float32 (sum) as top-k:0.1"},
      {Compression::top_k(0.1, false), Compression::top_k(0.2, false), 100, ReduceOp::kSum, "bytes"},
      {Compression::int8(), Compression::int8(16), 100, ReduceOp::kSum, "bytes"},
      {Compression::bfloat16(), Compression::bfloat16(), 100, ReduceOp::kAverage, "average"},
  };
  for (const Case& one : cases) {
    CAPTURE(std::string(one.words));
    Group group(2, seed());
    std::vector<Floats> floats{Floats(100), Floats(one.second_count)};
    const auto works = group.begin([&](Communicator& member, std::size_t rank) {
      const auto bytes = std::as_writable_bytes(std::span(floats[rank]));
      return member.compressed_all_reduce_async(
          bytes, bytes, {ElementType::kFloat32, rank == 0 ? ReduceOp::kSum : one.second_op},
          rank == 0 ? one.first : one.second, {}, kTimeout);
    });
    group.finish(works);
    std::string all;
    for (const auto& work : works) {
      CHECK(work->wait().code() == StatusCode::kInvalidArgument);
      CHECK_FALSE(work->compression_report());
      all += work->wait().message() + "\n";
    }
    CHECK_MESSAGE(all.find(one.words) != std::string::npos, all);
  }
}

TEST_CASE("what cannot be is refused where it is called, and the group goes on") {
  Group group(2, seed());
  const auto refused = [&](Reduction reduction, const Compression& compression, std::size_t residual,
                           std::size_t bytes = 400) {
    std::string message;
    group.begin([&](Communicator& member, std::size_t) -> Result<std::shared_ptr<Work>> {
      Floats floats(100);
      Floats kept(residual);
      const auto whole = std::as_writable_bytes(std::span(floats));
      const auto work = member.compressed_all_reduce_async(whole.first(bytes), whole, reduction, compression,
                                                           kept, kTimeout);
      REQUIRE(!work.is_ok());
      CHECK(work.status().code() == StatusCode::kInvalidArgument);
      message = work.status().message();
      return std::shared_ptr<Work>();
    });
    return message;
  };
  const Reduction sum{ElementType::kFloat32, ReduceOp::kSum};
  CHECK(refused({ElementType::kFloat64, ReduceOp::kSum}, Compression::int8(), 0).find("float64") !=
        std::string::npos);
  CHECK(refused({ElementType::kFloat32, ReduceOp::kMax}, Compression::int8(), 0).find("max") !=
        std::string::npos);
  CHECK(refused(sum, Compression::top_k(), 0).find("residual of 100 elements") != std::string::npos);
  CHECK(refused(sum, Compression::top_k(), 99).find("not of 99") != std::string::npos);
  CHECK(refused(sum, Compression::int8(), 100).find("int8:256:feedback") != std::string::npos);
  CHECK(refused(sum, Compression::int8(3), 0).find("use 16 to 65536") != std::string::npos);
  CHECK(refused(sum, Compression::bfloat16(), 0, 396).find("396 bytes into 400") != std::string::npos);
  std::mt19937_64 random(seed());
  Call call{inputs(random, 2, 100), ReduceOp::kSum, Compression::int8()};
  call.run(group);
  CHECK(call.is_same_everywhere());
}

TEST_CASE("cancelling one ends it on every member") {
  Group group(3, seed());
  std::vector<Floats> floats(3, Floats(200'000, 1.0F));
  const auto works = group.begin([&](Communicator& member, std::size_t rank) {
    const auto bytes = std::as_writable_bytes(std::span(floats[rank]));
    return member.compressed_all_reduce_async(bytes, bytes, {ElementType::kFloat32, ReduceOp::kSum},
                                              Compression::int8(), {}, kTimeout);
  });
  works[1]->cancel();
  group.finish(works);
  for (const auto& work : works) CHECK(work->wait().code() == StatusCode::kCancelled);
}
