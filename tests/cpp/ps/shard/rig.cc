#include "ps/shard/rig.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <bit>
#include <random>
#include <utility>

#include "ps/data/parts.h"

namespace square::test {
namespace {

// Of a worker's message.
std::vector<std::byte> message_of(const v1::PsTransfer& transfer, std::span<const float> values,
                                  std::size_t index, bool is_bfloat16) {
  const std::size_t count = ps::part_size(values.size(), index);
  const auto part = values.subspan(index * ps::kPartElements, count);
  const ElementType type = is_bfloat16 ? ElementType::kBfloat16 : ElementType::kFloat32;
  std::vector<std::byte> message(ps::part_bytes(count, type));
  std::byte* at = message.data() + ps::kPartHeadBytes;
  for (const float value : part) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto half = static_cast<std::uint16_t>(bits >> 16U);
    if (is_bfloat16) {
      std::memcpy(at, &half, sizeof half);
    } else {
      std::memcpy(at, &bits, sizeof bits);
    }
    at += is_bfloat16 ? sizeof half : sizeof bits;
  }
  ps::seal(message,
           {transfer.version(), transfer.ticket(), transfer.shard().begin() + index * ps::kPartElements});
  return message;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "square-shard-XXXXXX";
  path_ = ::mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::set<std::string> TemporaryFolder::files() const {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.path().filename() != "lock") names.insert(entry.path().filename());
  }
  return names;
}

ShardRig::ShardRig(const TemporaryFolder& folder, RigOptions options)
    : options_(options), model_size_(options.begin + options.size + options.behind) {
  auto opened = ps::Shard::open("s", folder.path(), options.kept, lines_, strand_, options.threads);
  REQUIRE_MESSAGE(opened.is_ok(), opened.status().to_string());
  shard_ = std::move(*opened);
}

void ShardRig::on_strand(const std::function<void(ps::Shard&)>& call) {
  begin<bool>([&](ps::Shard& shard, const ps::ShardHost::Done<bool>& done) {
    call(shard);
    done(true);
  }).get();
}

void ShardRig::stop() {
  if (shard_ == nullptr) return;
  on_strand([this](ps::Shard&) { shard_.reset(); });
  strand_.stop();
}

Status ShardRig::open(std::uint64_t version, std::uint64_t maker) {
  v1::PsWelcome welcome;
  welcome.set_version(version);
  welcome.set_version_maker(maker);
  welcome.set_lr(options_.outer.lr);
  welcome.set_momentum(options_.outer.momentum);
  welcome.set_delay(options_.outer.delay);
  welcome.set_delay_share(options_.outer.delay_share);
  welcome.set_is_bfloat16(options_.is_bfloat16);
  welcome.set_pushes_parameters(options_.pushes_parameters);
  v1::PsTensor& tensor = *welcome.mutable_model()->add_tensors();
  tensor.set_name("w");
  tensor.set_dtype("float32");
  tensor.add_shape(model_size_);
  const v1::PsShard shard = transfer(0, 0).shard();
  return begin<Status>([=](ps::Shard& host, auto done) { host.open(welcome, shard, done); }).get();
}

v1::PsTransfer ShardRig::transfer(std::uint64_t ticket, std::uint64_t version, std::uint64_t maker) const {
  v1::PsTransfer transfer;
  transfer.set_ticket(ticket);
  transfer.set_line("line " + std::to_string(ticket));
  transfer.set_worker("w");
  transfer.set_server("s");
  transfer.set_version(version);
  transfer.set_maker(maker);
  transfer.mutable_shard()->set_server("s");
  transfer.mutable_shard()->set_begin(options_.begin);
  transfer.mutable_shard()->set_end(options_.begin + options_.size);
  return transfer;
}

std::future<Result<double>> ShardRig::take(const v1::PsTransfer& transfer) {
  return begin<Result<double>>([=](ps::Shard& host, auto done) { host.take_push(transfer, done); });
}

std::future<Result<double>> ShardRig::average(const std::vector<std::pair<std::uint64_t, double>>& terms) {
  v1::PsAverage average;
  for (const auto& [ticket, weight] : terms) {
    average.add_terms()->set_ticket(ticket);
    average.mutable_terms()->rbegin()->set_weight(weight);
  }
  return begin<Result<double>>([=](ps::Shard& host, auto done) { host.average(average, done); });
}

std::future<Result<ps::MadeVersion>> ShardRig::make(std::uint64_t version, double factor,
                                                    std::uint64_t seed) {
  v1::PsMake make;
  make.set_factor(factor);
  make.set_seed(seed);
  make.mutable_record()->set_version(version);
  make.mutable_record()->set_maker(100 + version);
  *make.mutable_record()->mutable_layout() = layout_around(transfer(0, 0).shard(), model_size_);
  return begin<Result<ps::MadeVersion>>([=](ps::Shard& host, auto done) { host.make(make, done); });
}

std::future<Status> ShardRig::send(const v1::PsTransfer& transfer) {
  return begin<Status>([=](ps::Shard& host, auto done) { host.send_version(transfer, done); });
}

Status ShardRig::drop_made() {
  return begin<Status>([](ps::Shard& host, auto done) { host.drop_made(done); }).get();
}

void ShardRig::commit(std::uint64_t version) {
  on_strand([=](ps::Shard& host) { host.commit(version); });
}

std::vector<std::uint64_t> ShardRig::held() {
  std::vector<std::uint64_t> versions;
  on_strand([&](ps::Shard& host) {
    for (const v1::PsHeld& held : host.held()) versions.push_back(held.record().version());
  });
  return versions;
}

std::future<Status> ShardRig::push(const v1::PsTransfer& transfer, std::vector<float> values,
                                   bool is_bfloat16) {
  const auto line = lines_.worker(transfer.line());
  return std::async(std::launch::async, [=, values = std::move(values)]() -> Status {
    for (std::size_t i = 0; i < ps::parts_of(values.size()); ++i) {
      const std::vector<std::byte> message = message_of(transfer, values, i, is_bfloat16);
      const auto work = line->send(message);
      if (!work.is_ok()) return work.status();
      if (Status status = (*work)->wait(); !status.is_ok()) return status;
    }
    return {};
  });
}

std::future<Result<std::vector<float>>> ShardRig::pull(const v1::PsTransfer& transfer) {
  const auto line = lines_.worker(transfer.line());
  return std::async(std::launch::async, [=, size = options_.size]() -> Result<std::vector<float>> {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < ps::parts_of(size); ++i) {
      const std::span<float> part = std::span(values).subspan(i * ps::kPartElements, ps::part_size(size, i));
      std::vector<std::byte> message(ps::part_bytes(part.size(), ElementType::kFloat32));
      const auto work = line->receive(message);
      if (!work.is_ok()) return work.status();
      if (Status status = (*work)->wait(); !status.is_ok()) return status;
      const std::uint64_t first = transfer.shard().begin() + i * ps::kPartElements;
      if (Status status = ps::check_part(message, {transfer.version(), transfer.maker(), first});
          !status.is_ok()) {
        return status;
      }
      std::memcpy(part.data(), message.data() + ps::kPartHeadBytes, part.size_bytes());
    }
    return values;
  });
}

Result<double> ShardRig::whole_push(std::uint64_t ticket, const std::vector<float>& values, bool is_seed) {
  v1::PsTransfer what = transfer(ticket, 1);
  what.set_is_seed(is_seed);
  auto taken = take(what);
  const bool is_bfloat16 = options_.is_bfloat16 && !options_.pushes_parameters && !is_seed;
  CHECK(push(what, values, is_bfloat16).get().is_ok());
  return taken.get();
}

Result<std::vector<float>> ShardRig::whole_pull(std::uint64_t version) {
  const v1::PsTransfer what = transfer(++last_ticket_, version, 100 + version);
  auto sent = send(what);
  auto values = pull(what).get();
  CHECK(sent.get().is_ok() == values.is_ok());
  return values;
}

void ShardRig::begin_with(const std::vector<float>& parameters) {
  REQUIRE(open(0, 0).is_ok());
  REQUIRE(whole_push(++last_ticket_, parameters, true).is_ok());
  const auto made = make(1, 0, last_ticket_).get();
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  commit(1);
}

void ShardRig::whole_round(std::uint64_t version, const std::vector<float>& values, double factor) {
  REQUIRE(whole_push(++last_ticket_, values).is_ok());
  REQUIRE(average({{last_ticket_, 1.0}}).get().is_ok());
  const auto made = make(version, factor).get();
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  commit(version);
}

v1::PsLayout layout_around(const v1::PsShard& shard, std::uint64_t elements) {
  v1::PsLayout layout;
  layout.add_shards()->set_server("before");
  layout.mutable_shards(0)->set_end(shard.begin());
  *layout.add_shards() = shard;
  v1::PsShard& after = *layout.add_shards();
  after.set_server("after");
  after.set_begin(shard.end());
  after.set_end(elements);
  return layout;
}

std::vector<float> drawn(std::uint64_t seed, std::size_t count, float scale) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = scale * (static_cast<float>(random() >> 40U) / 8'388'608.0F - 1.0F);
  return values;
}

std::vector<float> cut_to_bfloat16(std::vector<float> values) {
  for (float& value : values)
    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff'0000U);
  return values;
}

}  // namespace square::test
