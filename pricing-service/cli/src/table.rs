//! Rows of text laid out for a person or for a program. Pure: what stands in the cells is decided elsewhere.

/// Between two columns of a table for a person.
const GAP: &str = "  ";
/// Stands for what a fixed width cut off, as in sacct.
const CUT_MARK: char = '+';

/// How one column of a table for a person looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnShape<'a> {
    pub(crate) name: &'a str,
    pub(crate) right_aligned: bool,
    /// In characters; `None`: as wide as the widest cell.
    pub(crate) width: Option<usize>,
}

/// A table for a person: columns side by side, longer cells of fixed columns cut and marked.
pub(crate) fn aligned(columns: &[ColumnShape<'_>], rows: &[Vec<String>], header: bool) -> String {
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| column.width.unwrap_or_else(|| widest(column, rows, index, header)))
        .collect();
    let mut text = String::new();
    if header {
        let names = columns.iter().map(|column| column.name);
        push_line(&mut text, columns, &widths, names);
    }
    for row in rows {
        push_line(&mut text, columns, &widths, row.iter().map(String::as_str));
    }
    text
}

fn widest(column: &ColumnShape<'_>, rows: &[Vec<String>], index: usize, header: bool) -> usize {
    let of_name = if header { column.name.chars().count() } else { 0 };
    let cells = rows.iter().filter_map(|row| row.get(index));
    cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(of_name)
}

fn push_line<'a>(
    text: &mut String,
    columns: &[ColumnShape<'_>],
    widths: &[usize],
    cells: impl Iterator<Item = &'a str>,
) {
    let mut line = String::new();
    for (index, ((column, &width), cell)) in columns.iter().zip(widths).zip(cells).enumerate() {
        if index > 0 {
            line.push_str(GAP);
        }
        let cell = cut(cell, width);
        if column.right_aligned {
            line.push_str(&format!("{cell:>width$}"));
        } else {
            line.push_str(&format!("{cell:<width$}"));
        }
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

fn cut(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let kept = cell.chars().take(width.saturating_sub(1));
    kept.chain([CUT_MARK]).collect()
}

/// How a table for a program looks: nothing is padded and nothing is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delimited {
    pub(crate) delimiter: String,
    /// Whether the delimiter also ends each line.
    pub(crate) at_end: bool,
}

impl Delimited {
    pub(crate) fn lay_out(&self, names: &[&str], rows: &[Vec<String>], header: bool) -> String {
        let mut text = String::new();
        if header {
            self.push_line(&mut text, names);
        }
        for row in rows {
            self.push_line(&mut text, row);
        }
        text
    }

    fn push_line<S: std::borrow::Borrow<str>>(&self, text: &mut String, cells: &[S]) {
        text.push_str(&cells.join(&self.delimiter));
        if self.at_end {
            text.push_str(&self.delimiter);
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: bool = false;
    const RIGHT: bool = true;

    fn column(name: &str, right_aligned: bool, width: Option<usize>) -> ColumnShape<'_> {
        ColumnShape { name, right_aligned, width }
    }

    fn rows(cells: &[&[&str]]) -> Vec<Vec<String>> {
        let row = |row: &&[&str]| row.iter().map(|cell| cell.to_string()).collect();
        cells.iter().map(row).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_content() {
        let columns = [column("Pool", LEFT, None), column("GPUs", RIGHT, None)];
        let cells = rows(&[&["a100", "16"], &["h100-sxm", "12345"]]);
        assert_eq!(aligned(&columns, &cells, true), "Pool       GPUs\na100         16\nh100-sxm  12345\n");
        assert_eq!(aligned(&columns, &cells, false), "a100         16\nh100-sxm  12345\n");
        assert_eq!(aligned(&columns, &[], true), "Pool  GPUs\n");
        assert_eq!(aligned(&columns, &[], false), "");
    }

    #[test]
    fn a_header_does_not_widen_columns_it_is_not_printed_over() {
        let columns = [column("Account", LEFT, None), column("Free", RIGHT, None)];
        assert_eq!(aligned(&columns, &rows(&[&["ml", "3"]]), false), "ml  3\n");
    }

    #[test]
    fn a_fixed_width_pads_cuts_and_marks() {
        let table = [
            (RIGHT, 8, "    abcd"),
            (LEFT, 8, "abcd    "),
            (RIGHT, 4, "abcd"),
            (LEFT, 3, "ab+"),
            (RIGHT, 3, "ab+"),
            (LEFT, 1, "+"),
        ];
        for (right_aligned, width, shown) in table {
            let columns = [column("x", right_aligned, Some(width)), column("y", LEFT, None)];
            let line = aligned(&columns, &rows(&[&["abcd", "."]]), false);
            assert_eq!(line, format!("{shown}  .\n"), "width {width}");
        }
    }

    #[test]
    fn width_counts_characters_and_lines_have_no_trailing_blanks() {
        let columns = [column("Name", LEFT, Some(4)), column("Memo", LEFT, None)];
        assert_eq!(
            aligned(&columns, &rows(&[&["größer", ""], &["é", "x"]]), true),
            "Name  Memo\ngrö+\né     x\n"
        );
    }

    #[test]
    fn delimited_text_is_neither_padded_nor_cut() {
        let names = ["Pool", "GPUs"];
        let cells = rows(&[&["a100", "16"], &["", "2"]]);
        let table = [
            ("|", false, "Pool|GPUs\na100|16\n|2\n"),
            ("|", true, "Pool|GPUs|\na100|16|\n|2|\n"),
            ("^|^", false, "Pool^|^GPUs\na100^|^16\n^|^2\n"),
        ];
        for (delimiter, at_end, text) in table {
            let layout = Delimited { delimiter: delimiter.into(), at_end };
            assert_eq!(layout.lay_out(&names, &cells, true), text);
        }
        let layout = Delimited { delimiter: "|".into(), at_end: true };
        assert_eq!(layout.lay_out(&names, &cells, false), "a100|16|\n|2|\n");
    }
}
