#include "store/postgres_store.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <thread>

#include "store/database_server.h"
#include "store/opened_store.h"
#include "store/postgres.h"

using namespace square;
using namespace square::store;
using namespace square::test;

namespace {

// One for all cases: it takes two seconds to make.
DatabaseServer& server() {
  static DatabaseServer made;
  return made;
}

// The tables of a case, which go with it.
class Database {
 public:
  Database() { clear(); }
  ~Database() { clear(); }
  [[nodiscard]] std::string address() const { return server().address(); }
  static void run(const char* statement) {
    auto connection = PostgresConnection::open(server().address(), kDatabasePatience);
    REQUIRE_MESSAGE(connection.is_ok(), connection.status().to_string());
    const auto done = connection->run(statement);
    REQUIRE_MESSAGE(done.is_ok(), done.status().to_string());
  }

 private:
  static void clear() { run("DROP TABLE IF EXISTS square_record, square_lead"); }
};

}  // namespace

TEST_CASE("a database keeps a store's records and its identity, and counts who takes hold of it") {
  const Database database;
  check_that_it_keeps_all(database.address());
}

// Over 3 s: it waits for a lease to end.
TEST_CASE("a second process is refused by a database while the first lives, and follows when that is gone") {
  const Database database;
  check_that_one_has_it(database.address(), "postgresql://");
}

TEST_CASE("who loses the database's lease is told so") {
  const Database database;
  const auto store = opened_store(database.address());
  Database::run("UPDATE square_lead SET term = 2");
  const Status lost = store->write({{"a", "1"}});
  CHECK(lost.code() == StatusCode::kFailedPrecondition);
  CHECK(lost.message().find("taken over") != std::string::npos);
  CHECK(records_of(*store).empty());
}

TEST_CASE("a database that ends and comes back loses nothing that was acknowledged") {
  const Database database;
  const auto store = opened_store(database.address());
  int acknowledged = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 5; ++i) {
      REQUIRE(store->write({{"count", std::to_string(++acknowledged)}}).is_ok());
    }
    server().kill();
    CHECK(store->write({{"count", "none"}}).code() == StatusCode::kUnavailable);
    server().start();
    CHECK(records_of(*store) == Records{{"count", std::to_string(acknowledged)}});
  }
}

TEST_CASE("what a database cannot take is named") {
  const Database database;
  CHECK(open_store("postgresql://nobody@127.0.0.1:1/none").status().code() == StatusCode::kUnavailable);
  const Status none = open_store("postgresql://[/x").status();
  CHECK(none.code() == StatusCode::kInvalidArgument);
  static_cast<void>(opened_store(database.address()));
  // The next release takes a store of this one, which does not take it back.
  ::setenv("SQUARE_TEST_RELEASE", "next", 1);
  static_cast<void>(opened_store(database.address()));
  ::unsetenv("SQUARE_TEST_RELEASE");
  const Status late = open_store(database.address()).status();
  CHECK(late.code() == StatusCode::kFailedPrecondition);
  CHECK(late.message().find("upgrade this controller") != std::string::npos);
  Database::run("UPDATE square_lead SET version = 7");
  const Status other = open_store(database.address()).status();
  CHECK(other.code() == StatusCode::kFailedPrecondition);
  CHECK(other.message().find("version 7") != std::string::npos);
}
