// SPDX-License-Identifier: Apache-2.0
// A C++ program with track events: c++ hello.cc $(pkg-config --cflags --libs perfleet)
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "perfleet_track_event.h"

PERFLEET_CATEGORY_DEFINE(hello, "hello", "Greetings", nullptr)
PERFLEET_CATEGORY_DEFINE(hello_detail, "hello.detail", "Every letter of them", "slow")

static perfleet_track letters = PERFLEET_COUNTER_TRACK("letters", "letters", nullptr);

static void greet(const std::string &whom)
{
    PERFLEET_TRACE_EVENT(&hello, "greet");
    long long said = 0;

    for (char letter : whom) {
        PERFLEET_EVENT(ev, &hello_detail, PERFLEET_INSTANT, "letter")
        {
            perfleet_arg(ev, "letter", static_cast<int>(letter));
        }
        PERFLEET_TRACE_COUNTER(&hello, &letters, ++said);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    PERFLEET_EVENT(ev, &hello, PERFLEET_INSTANT, "greeted")
    {
        perfleet_arg(ev, "whom", whom.c_str());
        perfleet_arg(ev, "letters", said);
        perfleet_arg_array(ev, "words");
        perfleet_arg(ev, nullptr, "hello");
        perfleet_arg(ev, nullptr, whom.c_str());
        perfleet_arg_end(ev);
    }
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? std::atoi(argv[1]) : 10;
    perfleet *tracing;

    if (perfleet_track_event_open("hello", &tracing) != 0)
        return 1;
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < end)
        greet("world");
    perfleet_close(tracing);
    return 0;
}
