#define BOOST_TEST_MODULE unit_train
#include <boost/test/unit_test.hpp>
