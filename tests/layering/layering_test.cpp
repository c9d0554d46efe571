#define BOOST_TEST_MODULE layering
#include "layering/layering.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>

using namespace sft::test;

namespace {

namespace fs = std::filesystem;

const fs::path source_folder = SFT_SOURCE_DIR;
const fs::path here = source_folder / "tests" / "layering";

/// Places of the lines under `root` that end in the comment "refused".
std::set<std::string> marked_places(const fs::path& root) {
  std::set<std::string> places;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream stream(entry.path());
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      if (!line.ends_with(" refused")) continue;
      places.insert(fs::relative(entry.path(), root).generic_string() + ":" + std::to_string(number));
    }
  }
  return places;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_include_of_the_program_goes_down) {
  for (const Violation& violation : find_violations(source_folder, read_room_table(here / "rooms.txt"))) {
    BOOST_ERROR(violation.place << ": " << violation.reason);
  }
}

BOOST_AUTO_TEST_CASE(every_marked_line_of_the_bad_tree_is_refused_and_no_other) {
  const fs::path tree = here / "bad_tree";
  std::set<std::string> found;
  for (const Violation& violation : find_violations(tree, read_room_table(here / "rooms.txt"))) {
    found.insert(violation.place);
  }
  std::set<std::string> expected = marked_places(tree);
  BOOST_TEST(expected.size() >= 9u);
  expected.insert("src/attic");  // a folder that is no room
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_table_with_a_circle_is_refused) {
  const fs::path file = fs::temp_directory_path() / "sft_layering_circle.txt";
  std::ofstream(file) << "core:\nops: core comm\ncomm: core ops\n";
  BOOST_CHECK_THROW((void)read_room_table(file), std::runtime_error);
  fs::remove(file);
}
