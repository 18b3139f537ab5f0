#include "store/sqlite_store.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "store/holder.h"
#include "store/sqlite.h"

namespace square::store {
namespace {

// "SQST", in the field of the file's header that says whose it is.
constexpr std::int64_t kApplicationId = 0x53515354;

constexpr const char* kSchema = R"(
  CREATE TABLE record(key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
  CREATE TABLE lead(one INTEGER PRIMARY KEY CHECK (one = 1), store INTEGER NOT NULL, term INTEGER NOT NULL,
    beat INTEGER NOT NULL, process INTEGER NOT NULL, started INTEGER NOT NULL, place BLOB NOT NULL,
    host BLOB NOT NULL);
)";

// Who holds the file, and how often it has said so.
struct Lead {
  StoreId store = 0;
  std::uint64_t term = 0;
  std::int64_t beat = 0;
  Holder holder;
};

Result<Lead> read_lead(SqliteFile& file) {
  Lead lead;
  SQUARE_RETURN_IF_ERROR(file.run("SELECT store, term, beat, process, started, place, host FROM lead", {},
                                  [&](const SqliteFile::Row& row) {
                                    lead = {static_cast<StoreId>(row.number(0)),
                                            static_cast<std::uint64_t>(row.number(1)),
                                            row.number(2),
                                            {row.number(3), row.number(4), row.bytes(5), row.bytes(6)}};
                                  }));
  return lead;
}

Status prepare(SqliteFile& file, const std::string& path) {
  SQUARE_ASSIGN_OR_RETURN(const std::int64_t application, file.number("PRAGMA application_id"));
  SQUARE_ASSIGN_OR_RETURN(const std::int64_t tables, file.number("SELECT count(*) FROM sqlite_schema"));
  if (application == 0 && tables == 0) {
    SQUARE_RETURN_IF_ERROR(file.run_all(kSchema));
    return file.run(fmt::format("PRAGMA application_id = {}", kApplicationId));
  }
  if (application != kApplicationId) {
    return invalid_argument(
        fmt::format("{} is the SQLite file of another program; name another file for the store", path));
  }
  SQUARE_ASSIGN_OR_RETURN(const std::int64_t version, file.number("PRAGMA user_version"));
  return check_version(path, version);
}

// Once nobody holds it, or `silent`, who has said nothing since, does: true. Precondition: a transaction.
Result<bool> take_hold(SqliteFile& file, const std::optional<Lead>& silent) {
  SQUARE_ASSIGN_OR_RETURN(Lead lead, read_lead(file));
  const bool is_silent = silent && lead.beat == silent->beat && lead.holder == silent->holder;
  if (!has_ended(lead.holder) && !is_silent) return false;
  if (lead.term == 0) {
    std::random_device device;
    lead.store = (StoreId{device()} << 32U) | device();
  }
  const Holder self = this_process();
  SQUARE_RETURN_IF_ERROR(
      file.run("INSERT OR REPLACE INTO lead VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
               {static_cast<std::int64_t>(lead.store), static_cast<std::int64_t>(lead.term + 1),
                lead.beat + 1, self.process, self.started, self.place, self.host}));
  SQUARE_RETURN_IF_ERROR(file.run(fmt::format("PRAGMA user_version = {}", store_versions().newest)));
  return true;
}

// Blocks while another process may hold the file.
Status hold(SqliteFile& file, const std::string& path, const std::stop_token& stop) {
  std::optional<Lead> first;
  for (Duration waited{0};; waited += kHolderWatchStep) {
    bool held = false;
    const Status looked = file.transact([&]() -> Status {
      SQUARE_RETURN_IF_ERROR(prepare(file, path));
      SQUARE_ASSIGN_OR_RETURN(held, take_hold(file, waited >= kHoldTime ? first : std::nullopt));
      return {};
    });
    SQUARE_RETURN_IF_ERROR(looked);
    if (held) return {};
    if (stop.stop_requested()) return cancelled("nobody waits for the store any more");
    SQUARE_ASSIGN_OR_RETURN(const Lead now, read_lead(file));
    if (!first) first = now;
    if (waited > kHoldTime || now.beat != first->beat || now.holder != first->holder) {
      return already_exists(fmt::format(
          "another controller, process {} on {}, has the store {}; stop that one or name another file",
          now.holder.process, now.holder.host, path));
    }
    std::this_thread::sleep_for(kHolderWatchStep);
  }
}

class SqliteStore final : public Store {
 public:
  SqliteStore(std::string path, SqliteFile file, const Lead& lead)
      : path_(std::move(path)), file_(std::move(file)), id_(lead.store), term_(lead.term) {
    keeper_ = std::thread([this] { keep(); });
  }

  ~SqliteStore() override {
    {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
      closing_.notify_all();
    }
    keeper_.join();
    // The next need not wait. Where this fails it finds out by itself.
    static_cast<void>(
        file_.run("UPDATE lead SET process = 0 WHERE term = ?", {static_cast<std::int64_t>(term_)}));
  }

  [[nodiscard]] StoreId id() const override { return id_; }
  [[nodiscard]] std::uint64_t term() const override { return term_; }

  Result<std::map<std::string, std::string>> read() override {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::string> records;
    SQUARE_RETURN_IF_ERROR(file_.run("SELECT key, value FROM record", {}, [&](const SqliteFile::Row& row) {
      records.emplace(row.bytes(0), row.bytes(1));
    }));
    return records;
  }

  Status write(const std::vector<Write>& writes) override {
    const std::lock_guard lock(mutex_);
    return file_.transact([&]() -> Status {
      SQUARE_RETURN_IF_ERROR(beat());
      for (const Write& one : writes) {
        SQUARE_RETURN_IF_ERROR(
            one.value ? file_.run("INSERT OR REPLACE INTO record VALUES (?, ?)", {one.key, *one.value})
                      : file_.run("DELETE FROM record WHERE key = ?", {one.key}));
      }
      return {};
    });
  }

 private:
  Status beat() {
    SQUARE_RETURN_IF_ERROR(
        file_.run("UPDATE lead SET beat = beat + 1 WHERE term = ?", {static_cast<std::int64_t>(term_)}));
    if (file_.changes() == 1) return {};
    return failed_precondition(
        fmt::format("another controller has taken over the store {}: this one had term {}", path_, term_));
  }

  void keep() {
    std::unique_lock lock(mutex_);
    while (!closing_.wait_for(lock, kHoldBeat, [this] { return is_closing_; })) {
      const Status kept = beat();
      if (!kept.is_ok()) log(LogLevel::kWarning, "store", "{}", kept.message());
      if (kept.code() == StatusCode::kFailedPrecondition) return note_hold(Hold::kTaken);
    }
  }

  const std::string path_;
  std::mutex mutex_;
  SqliteFile file_;  // under the mutex
  const StoreId id_;
  const std::uint64_t term_;
  bool is_closing_ = false;
  std::condition_variable closing_;
  std::thread keeper_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path, const std::stop_token& stop) {
  if (path.empty()) return invalid_argument("the store's path is empty");
  SQUARE_ASSIGN_OR_RETURN(SqliteFile file, SqliteFile::open(path, kBusyTime));
  SQUARE_RETURN_IF_ERROR(hold(file, path, stop));
  // After that: the mode is kept in the file, and a file of another program stays as it is.
  SQUARE_RETURN_IF_ERROR(file.run("PRAGMA journal_mode = WAL"));
  SQUARE_RETURN_IF_ERROR(file.run("PRAGMA synchronous = FULL"));
  SQUARE_ASSIGN_OR_RETURN(const Lead lead, read_lead(file));
  return std::unique_ptr<Store>(std::make_unique<SqliteStore>(path, std::move(file), lead));
}

}  // namespace square::store
