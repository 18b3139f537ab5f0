#include "store/postgres.h"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <array>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace square::store {
namespace {

using PostgresResult = std::unique_ptr<PGresult, decltype(&PQclear)>;

constexpr int kText = 0;
constexpr int kBinary = 1;

// PostgreSQL's words end with a line break.
std::string_view trimmed(std::string_view words) {
  while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.remove_suffix(1);
  return words;
}

// libpq itself writes them to stderr.
void pass_on(void* /*unused*/, const char* words) { log(LogLevel::kDebug, "store", "{}", trimmed(words)); }

bool is_class(std::string_view state, std::string_view name) { return state.substr(0, 2) == name; }

}  // namespace

void PostgresConnection::Close::operator()(pg_conn* connection) const { PQfinish(connection); }

Result<PostgresConnection> PostgresConnection::open(const std::string& address, Duration patience) {
  char* wrong = nullptr;
  PQconninfoOption* const options = PQconninfoParse(address.c_str(), &wrong);
  const std::unique_ptr<char, decltype(&PQfreemem)> words(wrong, &PQfreemem);
  if (options == nullptr) {
    return invalid_argument(fmt::format("the store's address is none of PostgreSQL: {}",
                                        trimmed(wrong == nullptr ? "no memory" : wrong)));
  }
  PQconninfoFree(options);
  PostgresConnection made(address, patience);
  SQUARE_RETURN_IF_ERROR(made.reconnect());
  return made;
}

Status PostgresConnection::reconnect() {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(patience_).count();
  const std::string seconds = std::to_string(std::max<std::int64_t>(2, milliseconds / 1000));
  const std::string limit = std::to_string(milliseconds);
  const std::string options = fmt::format("-c statement_timeout={0} -c lock_timeout={0}", limit);
  // What comes later counts more than what the address says of the same.
  const std::array<const char*, 10> keys = {"dbname",          "connect_timeout",     "tcp_user_timeout",
                                            "keepalives_idle", "keepalives_interval", "keepalives_count",
                                            "options",         "application_name",    nullptr};
  const std::array<const char*, 10> values = {address_.c_str(), seconds.c_str(), limit.c_str(), "1", "1", "3",
                                              options.c_str(),  "square",        nullptr};
  connection_.reset(PQconnectdbParams(keys.data(), values.data(), 1));
  if (!connection_) return resource_exhausted("no memory for a connection to PostgreSQL");
  PQsetNoticeProcessor(connection_.get(), pass_on, nullptr);
  name_ = fmt::format("postgresql://{}:{}/{}", PQhost(connection_.get()), PQport(connection_.get()),
                      PQdb(connection_.get()));
  if (PQstatus(connection_.get()) == CONNECTION_OK) return {};
  const std::string text =
      fmt::format("the store {} cannot be opened: {}", name_, trimmed(PQerrorMessage(connection_.get())));
  return PQconnectionNeedsPassword(connection_.get()) != 0 || PQconnectionUsedPassword(connection_.get()) != 0
             ? unauthenticated(text)
             : unavailable(text);
}

bool PostgresConnection::is_broken() const { return PQstatus(connection_.get()) != CONNECTION_OK; }

std::int64_t PostgresConnection::Row::number(int column) const {
  if (PQgetlength(result_, row_, column) != 8) return 0;
  const char* const bytes = PQgetvalue(result_, row_, column);
  std::uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8U | static_cast<unsigned char>(bytes[i]);
  return static_cast<std::int64_t>(number);
}

std::string PostgresConnection::Row::bytes(int column) const {
  return {PQgetvalue(result_, row_, column), static_cast<std::size_t>(PQgetlength(result_, row_, column))};
}

Result<std::int64_t> PostgresConnection::run(const char* statement, const std::vector<SqlValue>& values,
                                             const std::function<void(const Row&)>& on_row) {
  std::vector<std::string> numbers;
  numbers.reserve(values.size());
  std::vector<const char*> given;
  std::vector<int> lengths;
  std::vector<int> formats;
  for (const SqlValue& value : values) {
    if (value.bytes) {
      given.push_back(value.bytes->data());
      lengths.push_back(static_cast<int>(value.bytes->size()));
      formats.push_back(kBinary);
    } else {
      given.push_back(numbers.emplace_back(std::to_string(value.number)).c_str());
      lengths.push_back(0);
      formats.push_back(kText);
    }
  }
  const PostgresResult result(PQexecParams(connection_.get(), statement, static_cast<int>(values.size()),
                                           nullptr, given.data(), lengths.data(), formats.data(), kBinary),
                              &PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    const char* const state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
    return error(state == nullptr ? "" : state, PQerrorMessage(connection_.get()));
  }
  for (int row = 0; on_row && row < PQntuples(result.get()); ++row) on_row(Row(result.get(), row));
  const std::string changed = PQcmdTuples(result.get());
  return changed.empty() ? 0 : std::stoll(changed);
}

Status PostgresConnection::transact(const std::function<Status()>& body, bool* is_in_doubt) {
  SQUARE_RETURN_IF_ERROR(run("BEGIN").status());
  Status done = body();
  if (done.is_ok()) {
    done = run("COMMIT").status();
    if (!done.is_ok() && is_broken() && is_in_doubt != nullptr) *is_in_doubt = true;
  }
  if (!done.is_ok() && !is_broken()) static_cast<void>(run("ROLLBACK"));
  return done;
}

Status PostgresConnection::error(const char* sql_state, std::string_view words) const {
  const std::string text = fmt::format("the store {} cannot be read or written: {}", name_, trimmed(words));
  const std::string_view state = sql_state;
  if (is_class(state, "53")) return resource_exhausted(text + "; make room there");
  if (state == "42501") return failed_precondition(text + "; give its user the rights to create tables");
  return unavailable(text);
}

}  // namespace square::store
