/* SPDX-License-Identifier: Apache-2.0
 *
 * Zones: made of documents, good and bad; names that are none; damaged files. With an argument, it answers zones.py: a
 * line "NAME UTC SHOWN" by one with the offset of the moment UTC, how many moments have a clock that shows SHOWN, and
 * these.
 */
#include "tests/tft/files.h"
#include "tft/core/data/calendar.h"
#include "tft/core/data/zone.h"

static enum halay_status make(const char *text, struct tft_zone **zone)
{
    json_t *document = json_loads(text, 0, NULL);

    REQUIRE(document);
    enum halay_status status = tft_zone_create(&test_log, "x", document, zone);
    json_decref(document);
    return status;
}

static int answer(void)
{
    char name[64], last[64] = "";
    long long utc, shown;
    struct tft_zone *zone = NULL;
    json_t *document;

    while (scanf("%63s %lld %lld", name, &utc, &shown) == 3) {
        int64_t moments[2] = { 0 };
        if (strcmp(name, last)) {
            tft_zone_destroy(zone);
            REQUIRE(!tft_zone_load(&test_log, "x", TFT_ZONES_FOLDER, name, &document));
            REQUIRE(!tft_zone_create(&test_log, "x", document, &zone));
            json_decref(document);
        }
        memcpy(last, name, sizeof last);
        size_t n = tft_zone_moments(zone, shown, moments);
        printf("%d %zu %lld %lld\n", tft_zone_offset(zone, utc), n, (long long)moments[0], (long long)moments[1]);
    }
    tft_zone_destroy(zone);
    return 0;
}

/* A rule's offset in the middle of some months of 2021, in hours. */
static void rules(void)
{
    static const struct {
        const char *then;
        int january, july;
    } cases[] = {
        { "CET-1CEST,M3.5.0,M10.5.0/3", 3600, 7200 },
        { "EST5EDT,M3.2.0,M11.1.0", -18000, -14400 },
        { "NZST-12NZDT,M9.5.0,M4.1.0/3", 46800, 43200 },
        { "<-0330>3:30<-0230>,J60,J300", -12600, -9000 },
        { "<+0030>-0:30", 1800, 1800 },
        { "IST-1GMT0,M10.5.0,M3.5.0/1", 0, 3600 },
        { "XXX3<-02>2,0/0,J365/25", -7200, -7200 }, /* always summer time */
        { "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", -7200, -3600 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        struct tft_zone *zone;
        snprintf(text, sizeof text, "{\"offset\": %d, \"changes\": [], \"then\": \"%s\"}", cases[i].january,
                 cases[i].then);
        if (!CHECK(!make(text, &zone), "%s", text))
            continue;
        for (int year = 1950; year < 9999; year += 400) {
            int january = tft_zone_offset(zone, tft_time_from_date(year, 1, 15, 12, 0, 0));
            int july = tft_zone_offset(zone, tft_time_from_date(year, 7, 15, 12, 0, 0));
            CHECK(january == cases[i].january && july == cases[i].july, "%s, %d: %d %d", cases[i].then, year, january,
                  july);
        }
        tft_zone_destroy(zone);
    }
}

static void malformed(void)
{
    static const char *const bad[] = {
        "{\"offset\": 0}",
        "{\"offset\": \"0\", \"changes\": []}",
        "{\"offset\": 0, \"changes\": [1]}",
        "{\"offset\": 0, \"changes\": [1, 2, 1, 3]}",
        "{\"offset\": 0, \"changes\": [1, 100000]}",
        "{\"offset\": 0, \"changes\": [1, 2.5]}",
        "{\"offset\": 100000, \"changes\": []}",
        "{\"offset\": 0, \"changes\": [9000000000000000, 0]}",
        "{\"offset\": 0, \"changes\": [], \"then\": 3}",
        "{\"offset\": 0, \"changes\": [], \"then\": \"\"}",
        "{\"offset\": 0, \"changes\": [], \"then\": \"CE-1\"}",
        "{\"offset\": 0, \"changes\": [], \"then\": \"CET\"}",
        "{\"offset\": 0, \"changes\": [], \"then\": \"CET-1CEST\"}",
        "{\"offset\": 0, \"changes\": [], \"then\": \"CET-1CEST,M3.5.0\"}",
        "{\"offset\": 0, \"changes\": [], \"then\": \"CET-1CEST,M13.5.0,M10.5.0\"}",
        "{\"offset\": 0, \"changes\": [], \"then\": \"CET-1CEST,M3.5.0,M10.5.0/168\"}",
        "{\"offset\": 0, \"changes\": [], \"then\": \"CET-1CEST,M3.5.0,M10.5.0 \"}",
        "{\"offset\": 0, \"changes\": [], \"then\": \"CET-25\"}",
        "{\"offset\": 0, \"changes\": [], \"then\": \"<CET-1\"}",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tft_zone *zone = NULL;
        CHECK(make(bad[i], &zone) == HALAY_ERR_CONFIG && !zone && error_says("the time zone is neither"), "%s", bad[i]);
    }
}

/* A file of version 2: nothing in 32 bits; a kind, and a rule. */
static size_t make_file(unsigned char *bytes)
{
    static const unsigned char kind[6] = { 0, 0, 0x0e, 0x10, 0, 0 }; /* 3600 */

    memset(bytes, 0, 88);
    memcpy(bytes, "TZif2", 5);
    memcpy(bytes + 44, "TZif2", 5);
    bytes[44 + 39] = 1; /* kinds */
    memcpy(bytes + 88, kind, sizeof kind);
    memcpy(bytes + 94, "\nCET-1\n", 7);
    return 101;
}

/* Every byte of a file lost or changed: nothing crashes, and nothing is half taken. */
static void files(void)
{
    unsigned char bytes[128];
    size_t size = make_file(bytes), refused = 0;
    json_t *document;

    write_bytes("Zone", bytes, size);
    CHECK(!tft_zone_load(&test_log, "x", scratch, "Zone", &document));
    CHECK(json_integer_value(json_object_get(document, "offset")) == 3600 &&
          !strcmp(json_string_value(json_object_get(document, "then")), "CET-1"));
    json_decref(document);
    for (size_t i = 0; i < size; i++) {
        write_bytes("Zone", bytes, i);
        CHECK(tft_zone_load(&test_log, "x", scratch, "Zone", &document) == HALAY_ERR_CONFIG, "%zu bytes", i);
    }
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x81;
        write_bytes("Zone", bytes, size);
        if (tft_zone_load(&test_log, "x", scratch, "Zone", &document))
            refused++;
        else
            json_decref(document);
        bytes[i] ^= 0x81;
    }
    CHECK(refused > 20, "%zu", refused);
}

static void refuse(const char *folder, const char *name, const char *text)
{
    json_t *document;

    CHECK(tft_zone_load(&test_log, "x", folder, name, &document) == HALAY_ERR_CONFIG && error_says(text), "%s", name);
}

static void names(void)
{
    refuse(scratch, "Zono", "did you mean 'Zone'?");
    refuse(scratch, "Here/zone", "did you mean 'Zone'?");
    refuse(scratch, "Qwertyuiop", "expected a name like");
    refuse(scratch, "../Zone", "unknown time zone");
    refuse(scratch, "/etc/passwd", "unknown time zone");
    refuse(scratch, "", "unknown time zone");
    refuse("/nowhere", "UTC", "install tzdata");
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return answer();
    begin_scratch();
    rules();
    malformed();
    files();
    names();
    end_scratch();
    return test_end();
}
