// Snapshots: a server goes on from them, and takes nothing else for one.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "coding/floats.h"
#include "ps/data/parts.h"
#include "ps/shard/rig.h"

using namespace square;
using namespace square::ps;
using namespace square::test;

namespace {

constexpr std::size_t kTwoParts = kPartElements + 4321;
constexpr std::size_t kFew = 1000;
constexpr std::size_t kMoreThanUnderWay = kPartsUnderWay * kPartElements + 9;

void change_byte(const std::filesystem::path& path, std::uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

std::filesystem::path path_of(const TemporaryFolder& folder, std::uint64_t version) {
  for (const std::string& name : folder.files()) {
    if (name.find(std::to_string(version) + "-") != std::string::npos) return folder.path() / name;
  }
  return {};
}

// No file of this process grows beyond so many bytes.
class FileLimit {
 public:
  explicit FileLimit(std::uint64_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

std::vector<std::uint32_t> bits_of(Result<std::vector<float>> values) {
  REQUIRE_MESSAGE(values.is_ok(), values.status().to_string());
  return bits(*values);
}

}  // namespace

TEST_CASE("a server that begins again goes on with the same bits") {
  const TemporaryFolder folder;
  const TemporaryFolder other_folder;
  const RigOptions options{.size = kTwoParts, .outer = {0.7, 0.8, 3, 0.2}};
  ShardRig expected(other_folder, options);
  expected.begin_with(drawn(1, kTwoParts));
  {
    ShardRig rig(folder, options);
    rig.begin_with(drawn(1, kTwoParts));
  }
  for (std::uint64_t version = 2; version < 6; ++version) {
    CAPTURE(version);
    ShardRig rig(folder, options);
    REQUIRE(rig.open(version - 1, 100 + version - 1).is_ok());
    const std::vector<float> push = drawn(version, kTwoParts);
    rig.whole_round(version, push, 0.3);
    expected.whole_round(version, push, 0.3);
    CHECK(bits_of(rig.whole_pull(version)) == bits_of(expected.whole_pull(version)));
  }
  CHECK(folder.files() == other_folder.files());

  const auto read = read_snapshot(path_of(folder, 5));
  REQUIRE(read.is_ok());
  CHECK(bits(read->parameters) == bits_of(expected.whole_pull(5)));
  CHECK(read->header.record().version() == 5);
  CHECK(read->header.rounds() == 4);
  CHECK(read->header.has_accumulator());
  CHECK(read->header.shard().begin() == 7);
  CHECK(elements_of(read->header.model()) == kTwoParts + 7);
}

TEST_CASE("opening an older version removes what came after it") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = 100});
  rig.begin_with(drawn(1, 100));
  rig.whole_round(2, drawn(2, 100), 1);
  const auto second = bits_of(rig.whole_pull(2));
  REQUIRE(rig.make(3, 1).get().is_ok());
  CHECK(rig.held() == std::vector<std::uint64_t>{1, 2, 3});

  SUBCASE("what is committed stays, what was made goes") {
    CHECK(rig.open(2, 102).is_ok());
    CHECK(rig.held() == std::vector<std::uint64_t>{1, 2});
    CHECK(bits_of(rig.whole_pull(2)) == second);
  }
  SUBCASE("what was made is committed where it is asked for") {
    CHECK(rig.open(3, 103).is_ok());
    CHECK(rig.held() == std::vector<std::uint64_t>{1, 2, 3});
    CHECK(bits_of(rig.whole_pull(3)) == second);
  }
  SUBCASE("back to the first") {
    CHECK(rig.open(1, 101).is_ok());
    CHECK(rig.held() == std::vector<std::uint64_t>{1});
    CHECK(bits_of(rig.whole_pull(1)) == bits(drawn(1, 100)));
    rig.whole_round(2, drawn(2, 100), 1);
    CHECK(bits_of(rig.whole_pull(2)) == second);
  }
  SUBCASE("of another maker") {
    const Status status = rig.open(2, 999);
    CHECK(status.code() == StatusCode::kNotFound);
    CHECK(rig.held() == std::vector<std::uint64_t>{1});
  }
  SUBCASE("nothing, as of a training that the master does not know: it is refused, and nothing is lost") {
    const auto files = folder.files();
    const Status status = rig.open(0, 0);
    CHECK(status.code() == StatusCode::kFailedPrecondition);
    CHECK(status.message().find("version 3") != std::string::npos);
    CHECK(folder.files() == files);
    CHECK(rig.held() == std::vector<std::uint64_t>{1, 2, 3});
    CHECK(rig.open(2, 102).is_ok());
    CHECK(bits_of(rig.whole_pull(2)) == second);
  }
}

TEST_CASE("a first version that never counted is set aside, and goes once newer ones take its place") {
  const TemporaryFolder folder;
  const auto is_aside = [&](const std::string& name) { return name.ends_with(".snapshot.aside"); };
  ShardRig rig(folder, {.size = 100});
  rig.begin_with(drawn(1, 100));
  CHECK(rig.open(0, 0).is_ok());
  CHECK(rig.held().empty());
  CHECK(std::ranges::all_of(folder.files(), is_aside));
  REQUIRE(folder.files().size() == 1);
  const std::string aside = *folder.files().begin();
  CHECK(rig.whole_pull(1).status().code() == StatusCode::kCancelled);
  SUBCASE("renamed, it is a snapshot again") {
    rig.stop();
    std::filesystem::rename(folder.path() / aside, folder.path() / aside.substr(0, aside.rfind('.')));
    ShardRig again(folder, {.size = 100});
    CHECK(again.open(1, 101).is_ok());
    CHECK(bits_of(again.whole_pull(1)) == bits(drawn(1, 100)));
  }
  SUBCASE("it counts as the oldest") {
    rig.stop();
    ShardRig again(folder, {.size = 100});  // which finds it there
    REQUIRE(again.open(0, 0).is_ok());
    // Another attempt: its file has another name.
    REQUIRE(again.whole_push(50, drawn(5, 100), true).is_ok());
    REQUIRE(again.make(2, 0, 50).get().is_ok());
    again.commit(2);
    CHECK(bits_of(again.whole_pull(2)) == bits(drawn(5, 100)));
    again.whole_round(3, drawn(6, 100), 1);
    CHECK(folder.files().contains(aside));
    again.whole_round(4, drawn(7, 100), 1);
    again.stop();
    CHECK_FALSE(folder.files().contains(aside));
    CHECK(folder.files().size() == 3);
  }
}

TEST_CASE("versions that counted are set aside where an older one is gone back to") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = 100});
  rig.begin_with(drawn(1, 100));
  rig.whole_round(2, drawn(2, 100), 1);
  rig.whole_round(3, drawn(3, 100), 1);
  CHECK(rig.open(1, 101).is_ok());
  CHECK(rig.held() == std::vector<std::uint64_t>{1});
  const auto files = folder.files();
  // Version 2 may be an attempt that never counted; version 3 came after it.
  CHECK(std::ranges::count_if(files, [](const auto& name) { return name.ends_with(".aside"); }) == 1);
  CHECK(files.size() == 2);
}

TEST_CASE("a snapshot whose header no server writes is left out") {
  const TemporaryFolder folder;
  v1::PsSnapshotHeader header;
  header.mutable_record()->set_version(9);
  header.mutable_record()->set_maker(1);
  header.mutable_shard()->set_server("s");
  v1::PsTensor& tensor = *header.mutable_model()->add_tensors();
  tensor.set_name("w");
  tensor.set_dtype("float32");
  tensor.add_shape(8);
  *header.mutable_record()->mutable_layout() = layout_around(header.shard(), 8);
  bool is_good = false;
  SUBCASE("as one writes it") { is_good = true; }
  SUBCASE("without a layout") { header.mutable_record()->clear_layout(); }
  SUBCASE("without a model") { header.clear_model(); }
  SUBCASE("of no version") { header.mutable_record()->set_version(0); }
  SUBCASE("with another shard") {
    header.mutable_record()->mutable_layout()->mutable_shards(1)->set_server("t");
  }
  const std::filesystem::path path = folder.path() / "version-000000000009-0000000000000001.snapshot";
  auto writer = SnapshotWriter::create(path, header);
  REQUIRE(writer.is_ok());
  REQUIRE(writer->finish().is_ok());
  ShardRig rig(folder, {.size = 8});
  CHECK(rig.held().empty() != is_good);
}

TEST_CASE("a damaged snapshot is refused by its name") {
  const TemporaryFolder folder;
  const RigOptions options{.size = kFew};
  {
    ShardRig rig(folder, options);
    rig.begin_with(drawn(1, kFew));
    rig.whole_round(2, drawn(2, kFew), 1);
  }
  const std::filesystem::path path = path_of(folder, 2);
  REQUIRE(!path.empty());
  const std::uint64_t bytes = std::filesystem::file_size(path);

  SUBCASE("a number") {
    change_byte(path, bytes / 2);
    ShardRig rig(folder, options);
    CHECK(rig.held() == std::vector<std::uint64_t>{1, 2});
    const Status status = rig.open(2, 102);
    CHECK(status.code() == StatusCode::kDataLoss);
    CHECK(status.message().find(path.native()) != std::string::npos);
    CHECK(rig.open(1, 101).is_ok());
    CHECK(bits_of(rig.whole_pull(1)) == bits(drawn(1, kFew)));
  }
  SUBCASE("the hash") {
    change_byte(path, bytes - 16);
    ShardRig rig(folder, options);
    CHECK(rig.open(2, 102).code() == StatusCode::kDataLoss);
  }
  SUBCASE("the header") { change_byte(path, 20); }
  SUBCASE("the size of the header") { change_byte(path, 11); }
  SUBCASE("the end") { std::filesystem::resize_file(path, bytes - 1); }
  SUBCASE("more than there is") { std::filesystem::resize_file(path, bytes + 8); }
  SUBCASE("nearly nothing") { std::filesystem::resize_file(path, 3); }
  SUBCASE("one that was not finished") {
    std::filesystem::rename(path, path.native() + std::string(kUnfinishedSuffix));
  }
  if (read_snapshot(path).status().code() == StatusCode::kNotFound || !SnapshotFile::open(path).is_ok()) {
    ShardRig rig(folder, options);
    CHECK(rig.held() == std::vector<std::uint64_t>{1});
    CHECK(rig.open(1, 101).is_ok());
    CHECK(bits_of(rig.whole_pull(1)) == bits(drawn(1, kFew)));
    CHECK(!std::filesystem::exists(path.native() + std::string(kUnfinishedSuffix)));
  }
}

TEST_CASE("a disk that is full makes no version, and leaves nothing") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = kTwoParts});
  const std::vector<float> parameters = drawn(1, kTwoParts);
  rig.begin_with(parameters);
  const auto files = folder.files();
  const std::vector<float> push = drawn(2, kTwoParts);
  REQUIRE(rig.whole_push(5, push).is_ok());
  REQUIRE(rig.average({{5, 1.0}}).get().is_ok());
  {
    const FileLimit limit(std::uint64_t{4} << 20U);  // in the middle of the first part
    const auto made = rig.make(2, 1).get();
    CHECK(made.status().code() == StatusCode::kResourceExhausted);
    CHECK(made.status().message().find(folder.path().native()) != std::string::npos);
    CHECK(folder.files() == files);
    CHECK(!rig.whole_pull(2).is_ok());
    CHECK(rig.drop_made().is_ok());
  }
  CHECK(rig.held() == std::vector<std::uint64_t>{1});
  CHECK(bits_of(rig.whole_pull(1)) == bits(parameters));
  rig.whole_round(2, push, 1);
  CHECK(rig.held() == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("a folder is one server's") {
  const TemporaryFolder folder;
  MemoryLines lines;
  ThreadExecutor strand;
  {
    ShardRig rig(folder, {.size = 1});
    const auto second = Shard::open("t", folder.path(), 2, lines, strand, 1);
    CHECK(second.status().code() == StatusCode::kFailedPrecondition);
    CHECK(second.status().message().find(folder.path().native()) != std::string::npos);
  }
  CHECK(Shard::open("t", folder.path() / "made" / "anew", 2, lines, strand, 1).is_ok());
  CHECK(Shard::open("t", folder.path(), 2, lines, strand, 1).is_ok());
  CHECK(Shard::open("t", "/dev/null/no", 2, lines, strand, 1).status().code() == StatusCode::kUnavailable);
}

TEST_CASE("old snapshots are pruned, but not one that is being sent") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = kMoreThanUnderWay, .kept = 2});
  const std::vector<float> first = drawn(1, kMoreThanUnderWay);
  rig.begin_with(first);
  const v1::PsTransfer slow = rig.transfer(50, 1, 101);
  const auto sent = rig.send(slow);  // stands still: nobody receives
  for (std::uint64_t version = 2; version < 5; ++version) rig.whole_round(version, first, 0.1);
  CHECK(rig.held() == std::vector<std::uint64_t>{1, 3, 4});
  CHECK(bits_of(rig.pull(slow).get()) == bits(first));
  sent.wait();
  rig.whole_round(5, first, 0.1);
  CHECK(rig.held() == std::vector<std::uint64_t>{4, 5});
  CHECK(bits_of(rig.whole_pull(4)) != bits_of(rig.whole_pull(5)));
  CHECK(rig.whole_pull(3).status().code() == StatusCode::kCancelled);
  rig.stop();
  CHECK(folder.files().size() == 2);
}
