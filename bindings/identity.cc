#include <algorithm>
#include <filesystem>
#include <optional>

#include "bindings.h"
#include "identities.h"
#include "square/authority.h"
#include "whole_number.h"

namespace square::python {
namespace {

std::optional<std::string> name_of(const Identity& self) {
  return self.name() ? std::optional(to_string(*self.name())) : std::nullopt;
}

void issue(const Authority& self, const std::string& role, const std::string& name,
           const std::filesystem::path& folder, std::chrono::duration<double> life) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(life);
  const Role kind = check(parse_role(role));
  check(unlocked([&] { return self.issue(kind, name, folder.string(), seconds); }));
}

void write_grant(const Authority& self, const std::string& tenant, const std::filesystem::path& folder,
                 std::chrono::duration<double> life, std::vector<std::string> nodes,
                 std::vector<std::string> operations, double weight, Size<"groups"> groups,
                 Size<"collectives"> collectives, std::optional<Size<"sessions">> sessions,
                 std::optional<Size<"open_operations">> open_operations,
                 std::optional<Size<"open_bytes">> open_bytes, std::optional<Size<"members">> members) {
  const auto end = std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::seconds>(life);
  Grant grant{"",
              tenant,
              std::move(nodes),
              std::move(operations),
              weight,
              groups,
              collectives,
              sessions ? sessions->value : Quota::kNone,
              members ? members->value : Quota::kNone,
              {},
              std::chrono::system_clock::to_time_t(end)};
  grant.open.operations = open_operations ? open_operations->value : Quota::kNone;
  grant.open.bytes = open_bytes ? open_bytes->value : Quota::kNone;
  check(unlocked([&] { return self.write_grant(grant, folder.string()); }));
}

}  // namespace

std::shared_ptr<Identity> identity_of(const IdentityArgument& given) {
  if (!given) return nullptr;
  if (const auto* const made = std::get_if<std::shared_ptr<Identity>>(&*given)) return *made;
  const std::string folder = std::get<std::filesystem::path>(*given).string();
  return folder.empty() ? nullptr : check(unlocked([&] { return Identity::open(folder); }));
}

void bind_identity(py::module_& module) {
  py::class_<Identity, std::shared_ptr<Identity>>(
      module, "Identity", "Who a process is to others, and whom it believes: see square/identity.h.")
      .def(py::init([](const std::filesystem::path& folder) {
             return check(unlocked([&] { return Identity::open(folder.string()); }));
           }),
           py::arg("folder"), "Of a folder that `square ca issue` has written.")
      .def_static(
          "make_own", [] { return check(unlocked([] { return Identity::make_own(); })); },
          "A key of its own, in memory, which those believe that were told its fingerprint.")
      .def_static(
          "from_pem",
          [](const std::string& pem) { return check(unlocked([&] { return Identity::own_of(pem); })); },
          py::arg("pem"),
          "The same as another process has made: whoever has its pem is believed in its place.")
      .def_property_readonly(
          "pem", [](const Identity& self) { return self.key_pem() + self.certificate_pem(); },
          "Key and certificate, a secret; empty of one in a folder.")
      .def_property_readonly("name", &name_of, "spiffe://DOMAIN/ROLE/NAME; None of one that was made here.")
      .def_property_readonly("fingerprint", &Identity::fingerprint,
                             "SHA-256 of the certificate, in hexadecimal.")
      .def(
          "believe",
          [](Identity& self, const std::vector<std::string>& fingerprints) {
            check(self.believe(fingerprints));
          },
          py::arg("fingerprints"), "Believes the holders of these certificates, whatever they name.");

  py::class_<Authority>(module, "Authority", "An operator's own authority: see square/authority.h.")
      .def_static(
          "create",
          [](const std::filesystem::path& folder, const std::string& domain) {
            return check(unlocked([&] { return Authority::create(folder.string(), domain); }));
          },
          py::arg("folder"), py::arg("domain"), "Makes a key and its certificate in the folder.")
      .def(py::init([](const std::filesystem::path& folder) {
             return check(unlocked([&] { return Authority::open(folder.string()); }));
           }),
           py::arg("folder"))
      .def_property_readonly("domain", &Authority::domain)
      .def("issue", &issue, py::arg("role"), py::arg("name"), py::arg("folder"),
           py::arg("life") = std::chrono::duration<double>(Authority::kUsualLife),
           "Writes a new key and its certificate into the folder; role: node, tenant, controller or server.")
      .def("grant", &write_grant, py::arg("tenant"), py::arg("folder"), py::arg("life"),
           py::arg("nodes") = std::vector<std::string>{}, py::arg("operations") = std::vector<std::string>{},
           py::arg("weight") = 1.0, py::arg("groups") = Grant{}.groups,
           py::arg("collectives") = Grant{}.collectives, py::arg("sessions") = Grant{}.sessions,
           py::arg("open_operations") = py::none(), py::arg("open_bytes") = py::none(),
           py::arg("members") = Grant{}.members,
           "Writes a grant into the folder of the identity of a node; tenant \"*\" stands for all of them. "
           "Empty: all nodes, all operations. sessions: that plans make of its collectives; members: of one "
           "group; open_operations, "
           "open_bytes: of calls under way on each node at once; None: no limit.")
      .def_static(
          "revoke",
          [](const std::string& role, const std::string& name, const std::filesystem::path& folder) {
            const Role kind = check(parse_role(role));
            check(unlocked([&] { return Authority::revoke(kind, name, folder.string()); }));
          },
          py::arg("role"), py::arg("name"), py::arg("folder"),
          "Believe no certificate of that name that was issued before now: for the controller's folder.");
}

}  // namespace square::python
