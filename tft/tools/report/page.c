/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages: text, tables and charts in one file: no script, no font, no picture from elsewhere; colours are variables that
 * follow the reader's preference for light or dark.
 */
#include "tft/tools/report/page.h"
#include "tft/tools/report/chart.h"

static const char before_title[] = "<!doctype html>\n"
                                   "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                                   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                                   "<meta name=\"color-scheme\" content=\"light dark\">\n";

static const char behind_title[] =
    "<style>\n"
    ":root{--back:#fbfbfa;--card:#fff;--ink:#1d2126;--soft:#5c646e;--edge:#e3e5e8;--grid:#eceef0}\n"
    ":root{--model:#1f6fd1;--truth:#1d2126;--naive:#b3570a;--second:#8a55c7;--fifth:#1b7f4d}\n"
    "@media screen and (prefers-color-scheme:dark){\n"
    ":root{--back:#14171b;--card:#1b1f25;--ink:#e6e8eb;--soft:#a3abb6;--edge:#2c323a;--grid:#262b32}\n"
    ":root{--model:#6aa9f5;--truth:#e6e8eb;--naive:#f0a355;--second:#c09af0;--fifth:#5cc98f}}\n"
    "body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,sans-serif}\n"
    "main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}\n"
    "h1{font-size:26px;margin:0 0 2px}\n"
    "h2{font-size:18px;margin:34px 0 10px}\n"
    "h3{font-size:15px;margin:24px 0 8px}\n"
    "p{margin:6px 0;color:var(--soft);overflow-wrap:anywhere}\n"
    "p b{color:var(--ink)}\n"
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:18px 0}\n"
    ".card,figure{background:var(--card);border:1px solid var(--edge);border-radius:10px}\n"
    ".card{padding:12px 14px}\n"
    ".card b{display:block;font-size:24px;font-weight:600}\n"
    ".card span{color:var(--soft);font-size:13px}\n"
    "figure{margin:0 0 14px;padding:12px;overflow-x:auto;direction:rtl}\n" /* too narrow: what is last shows */
    "figure svg{direction:ltr}\n"
    ".pair{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 14px}\n"
    "@media (max-width:760px){.pair{grid-template-columns:minmax(0,1fr)}main{padding:20px 12px 40px}}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;background:var(--card);border:1px solid var(--edge);width:100%;margin:0 0 14px}\n"
    "th,td{padding:7px 12px;text-align:right;border-bottom:1px solid var(--grid);font-variant-numeric:tabular-nums}\n"
    "th:first-child,td:first-child{text-align:left}td+td{white-space:nowrap}\n"
    "th{color:var(--soft);font-weight:500}\n"
    "tr.best td{font-weight:600;color:var(--model)}\n"
    ".bar{width:38%}\n"
    ".bar i{display:block;height:10px;border-radius:3px;background:var(--model)}\n"
    "svg{width:100%;height:auto;display:block}\n"
    "svg text{font:11.5px system-ui,sans-serif;fill:var(--soft)}\n"
    "svg text.title{font-size:13.5px;font-weight:600;fill:var(--ink)}\n"
    "svg text.over{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}\n"
    ".grid{stroke:var(--grid)}\n"
    ".mark{stroke:var(--soft);stroke-dasharray:3 4}\n"
    ".line{fill:none;stroke-width:2;stroke-linejoin:round}\n"
    ".line.model{stroke:var(--model)}\n"
    ".line.truth{stroke:var(--truth);stroke-width:1.6}\n"
    ".line.naive{stroke:var(--naive)}\n"
    ".line.second{stroke:var(--second);stroke-dasharray:5 4}\n"
    ".line.fifth{stroke:var(--fifth)}\n"
    "circle.line.second{stroke-dasharray:none}\n"
    ".band{fill:var(--model);opacity:.2;stroke:none}\n"
    ".share{fill:var(--second);opacity:.35;stroke:none}\n"
    ".heat{fill:var(--model)}\n"
    ".axis{stroke:var(--soft)}\n"
    ".line.rest{stroke:var(--soft);stroke-width:1;opacity:.35}\n"
    ".line.good{stroke:var(--model);stroke-width:1.5;opacity:.65}\n"
    ".line.best{stroke:var(--naive);stroke-width:3}\n"
    "@media print{\n"
    ":root{--back:#fff}\n"
    "main{max-width:none;padding:0}\n"
    ".pair{grid-template-columns:repeat(2,minmax(0,1fr))}\n"
    "figure,tr,.card{break-inside:avoid}\n"
    "h2,h3{break-after:avoid}\n"
    "figure,.wide{overflow:visible}\n"
    "svg{min-width:0!important}\n"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}\n"
    "</style></head><body><main>\n";

void tft_page_begin(FILE *file, const char *title)
{
    fputs(before_title, file);
    fprintf(file, "<title>");
    tft_html_text(file, title);
    fprintf(file, "</title>\n");
    fputs(behind_title, file);
}

void tft_page_end(FILE *file)
{
    fprintf(file, "</main></body></html>\n");
}
