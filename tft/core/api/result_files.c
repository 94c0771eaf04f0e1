/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of results.
 */
#include "tft/core/api/result_files.h"
#include "base/document.h"
#include "tft/core/score/score_output.h"
#include "tft/tools/report/page.h"

enum halay_status tft_result_files_open(struct halay_tft *t, const char *json, const char *csv, const char *page,
                                        struct tft_result_files *f)
{
    enum halay_status status = HALAY_OK;

    if (json && t->rank == 0)
        status = halay_output_open(&t->log, json, &f->json);
    if (!status && csv && t->rank == 0)
        status = halay_output_open(&t->log, csv, &f->csv);
    if (!status && page && t->rank == 0)
        status = halay_output_open(&t->log, page, &f->page);
    return status;
}

enum halay_status tft_result_files_page(struct tft_result_files *f, const json_t *result)
{
    if (!f->page.file)
        return HALAY_OK;
    tft_page_write(f->page.file, result);
    return halay_output_commit(&f->page);
}

enum halay_status tft_result_files_write(struct tft_result_files *f, const json_t *result)
{
    enum halay_status status = f->json.file ? halay_document_commit(&f->json, result) : HALAY_OK;

    if (!status && f->csv.file) {
        tft_scores_write_csv(f->csv.file, result);
        status = halay_output_commit(&f->csv);
    }
    return status;
}

void tft_result_files_abort(struct tft_result_files *f)
{
    halay_output_abort(&f->json);
    halay_output_abort(&f->csv);
    halay_output_abort(&f->page);
}
